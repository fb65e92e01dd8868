package gosmb2

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
)

// differs are the tests of go-smb2's suite that fail, and why. One that passes is a failure, too.
var differs = map[string]string{
	"TestGlobFS": "expects names with backslashes of an fs.FS, which io/fs forbids",
}

// go-smb2's own integration suite, on the package that replaces it: the package's files under go-smb2's
// import path, beside the suite's, which are unchanged.
func TestSuite(t *testing.T) {
	dir := standIn(t)
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			configure(t, rigtest.Start(t, rig.Config{Mode: mode}), dir)
			cmd := exec.Command("go", "test", "-count=1", "-v", ".")
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
			out, _ := cmd.CombinedOutput()
			passed := 0
			for _, m := range verdict.FindAllStringSubmatch(string(out), -1) {
				why, excepted := differs[m[2]]
				switch {
				case m[1] == "PASS" && excepted:
					t.Errorf("%s passes now", m[2])
				case m[1] == "PASS":
					passed++
				case m[1] == "FAIL" && !excepted:
					t.Errorf("%s failed", m[2])
				case m[1] == "FAIL":
					t.Logf("%s: %s", m[2], why)
				case m[1] == "SKIP":
					t.Logf("%s was skipped by the suite", m[2])
				}
			}
			t.Logf("%d tests of go-smb2's suite passed", passed)
			if passed < 15 || t.Failed() {
				t.Errorf("%s", out)
			}
		})
	}
}

var verdict = regexp.MustCompile(`(?m)^--- (PASS|FAIL|SKIP): (\w+)`)

// standIn makes a module with go-smb2's path from the package that replaces it.
func standIn(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	repository, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	original := strings.TrimSpace(output(t, ".", "go", "list", "-m", "-f", "{{.Dir}}", cloudsoda))
	copied := 0
	for _, pattern := range []string{
		filepath.Join(repository, "smb", "krb5", "gosmb2", "*.go"),
		filepath.Join(original, "smb2_test.go"),
		filepath.Join(original, "smb2_fs_test.go"),
		filepath.Join(original, "example_test.go"),
	} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), b, 0o600); err != nil {
				t.Fatal(err)
			}
			copied++
		}
	}
	if copied < 8 {
		t.Fatalf("only %d files", copied)
	}
	// The versions are this module's: only modules in its go.sum are downloaded.
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(mod), "module github.com/tarn-go/tarn/interop/gosmb2", "module "+cloudsoda, 1)
	text = strings.ReplaceAll(text, "=> ../..", "=> "+repository)
	text = regexp.MustCompile(`(?m)^\s*`+cloudsoda+` .*\n`).ReplaceAllString(text, "")
	sum, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"go.mod": []byte(text), "go.sum": sum} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func output(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v", name, strings.Join(args, " "), err)
	}
	return string(out)
}

// configure writes the file by which go-smb2's suite finds its server.
func configure(t *testing.T, s *rig.Server, dir string) {
	t.Helper()
	host, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(map[string]any{
		"transport": map[string]any{"type": "tcp", "host": host, "port": n},
		"session":   map[string]any{"type": "ntlm", "user": s.User, "passwd": s.Password},
		"tree_conn": map[string]any{"share1": s.Share, "share2": "readonly"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "client_conf.json"), b, 0o600); err != nil {
		t.Fatal(err)
	}
}
