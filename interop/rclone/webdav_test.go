package rclone

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
)

// TestLitmus runs litmus, a suite for WebDAV servers, on "rclone serve webdav" of Tarn's backend. One test of basic, nine of props and two
// of locks do not pass: rclone makes a directory that exists, and stores no properties; x/net/webdav has no shared locks.
func TestLitmus(t *testing.T) {
	if os.Getenv("TARN_LONG") != "1" {
		t.Skip("only with TARN_LONG=1")
	}
	litmus, err := exec.LookPath("litmus")
	if err != nil {
		t.Skip(err)
	}
	url := serveWebDAV(t, startServer(t, rig.Plain))
	cmd := exec.CommandContext(t.Context(), litmus, "-k", url)
	cmd.Dir = t.TempDir() // it writes logs
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Error(err)
	}
	passed := map[string]int{}
	for _, m := range regexp.MustCompile("summary for `(\\w+)': of \\d+ tests run: (\\d+) passed").FindAllStringSubmatch(string(out), -1) {
		passed[m[1]], _ = strconv.Atoi(m[2])
	}
	for suite, least := range map[string]int{"basic": 15, "copymove": 13, "props": 21, "locks": 32, "http": 4} {
		if passed[suite] < least {
			t.Errorf("%s: %d tests passed of %d", suite, passed[suite], least)
		}
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}

// serveWebDAV serves the share until the test ends.
func serveWebDAV(t *testing.T, srv *server) (url string) {
	t.Helper()
	binary := shop(t).build(t, tarnsmb, program, "build")
	cmd := exec.Command(binary, "serve", "webdav", "--addr", "127.0.0.1:0", "--vfs-cache-mode", "writes", "--cache-dir", t.TempDir(), srv.share)
	cmd.Env = srv.env(tarnsmb)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		for lines.Scan() { // until it has ended
		}
		cmd.Wait()
	})
	started := regexp.MustCompile(`http://127\.0\.0\.1:\d+/`)
	for lines.Scan() {
		if url = started.FindString(lines.Text()); url != "" {
			return url
		}
		t.Log(lines.Text())
	}
	t.Fatalf("%s serves nothing", filepath.Base(binary))
	return ""
}
