package rclone

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const (
	rclone = "github.com/rclone/rclone"
	goSMB2 = "github.com/cloudsoda/go-smb2"
)

// variant is which go-smb2 a program is built with.
type variant string

const (
	shipped variant = "shipped" // the real one
	tarns   variant = "tarn"    // the packages of this repository under its import path
)

// workshop is where variants are built: once for all tests of a run.
type workshop struct {
	dir     string
	rclone  string // a copy of rclone's sources with few backends
	modfile map[variant]string
}

var dir string // the workshop's, removed by TestMain

func TestMain(m *testing.M) {
	var err error
	if dir, err = os.MkdirTemp("", "tarnrclone"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

var prepare = sync.OnceValues(func() (*workshop, error) {
	w := &workshop{dir: dir, rclone: filepath.Join(dir, "rclone"), modfile: map[variant]string{}}
	repository, err := filepath.Abs("../..")
	if err != nil {
		return nil, err
	}
	if err := w.copyRclone(); err != nil {
		return nil, err
	}
	standIn := filepath.Join(dir, "go-smb2")
	if err := copyStandIn(standIn, filepath.Join(repository, "smb", "krb5", "gosmb2")); err != nil {
		return nil, err
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		return nil, err
	}
	sum, err := os.ReadFile("go.sum")
	if err != nil {
		return nil, err
	}
	base := strings.ReplaceAll(string(mod), "=> ../..", "=> "+repository) +
		fmt.Sprintf("\nreplace %s => %s\n", rclone, w.rclone)
	for v, more := range map[variant]string{
		shipped: "",
		tarns:   fmt.Sprintf("\nreplace %s => %s\n", goSMB2, standIn),
	} {
		w.modfile[v] = filepath.Join(dir, string(v)+".mod")
		for name, text := range map[string]string{w.modfile[v]: base + more, filepath.Join(dir, string(v)+".sum"): string(sum)} {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				return nil, err
			}
		}
	}
	return w, nil
})

// copyRclone copies rclone's sources, of whose hundred backends those stay that its suites use
// beside SMB: a test binary with all of them takes many minutes to build. onedrive has a hash
// that the suites name.
func (w *workshop) copyRclone() error {
	original, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", rclone).Output()
	if err != nil {
		return fmt.Errorf("finding rclone: %w", err)
	}
	if err := os.CopyFS(w.rclone, os.DirFS(strings.TrimSpace(string(original)))); err != nil {
		return err
	}
	all := filepath.Join(w.rclone, "backend", "all", "all.go")
	if err := os.Chmod(all, 0o600); err != nil {
		return err
	}
	var text strings.Builder
	text.WriteString("// Package all has few backends.\npackage all\n\nimport (\n")
	for _, backend := range []string{"local", "memory", "onedrive", "smb"} {
		fmt.Fprintf(&text, "\t_ %q\n", rclone+"/backend/"+backend)
	}
	text.WriteString(")\n")
	return os.WriteFile(all, []byte(text.String()), 0o600)
}

// copyStandIn makes a module with go-smb2's path from the package that replaces it.
func copyStandIn(to, from string) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	mod := "module " + goSMB2 + "\n\ngo 1.25.0\n"
	return os.WriteFile(filepath.Join(to, "go.mod"), []byte(mod), 0o600)
}

func shop(t testing.TB) *workshop {
	t.Helper()
	w, err := prepare()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// build builds a command, or the tests of a package, with the go-smb2 of v.
func (w *workshop) build(t testing.TB, v variant, pkg string, args ...string) string {
	t.Helper()
	bin := filepath.Join(w.dir, string(v)+"-"+strings.ReplaceAll(strings.TrimPrefix(pkg, rclone+"/"), "/", "-"))
	args = append(append(args, "-mod=mod", "-modfile="+w.modfile[v], "-o", bin), pkg)
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return bin
}
