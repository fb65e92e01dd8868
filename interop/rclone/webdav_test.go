package rclone

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
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
	url := serve(t, startServer(t, rig.Plain), shop(t).build(t, tarnsmb, program, "build"), "webdav")
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
