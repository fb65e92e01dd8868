package rclone

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
)

// rclone's own suites, with Tarn's packages in place of go-smb2 and with Tarn's backend, whose own suite is run in smb/rclone. They leave
// out the features that a backend does not offer. Without TARN_LONG=1 only some run, on plain sessions.
func TestSuites(t *testing.T) {
	long := os.Getenv("TARN_LONG") == "1"
	for _, suite := range []struct {
		variant
		pkg    string
		path   string // in the share
		args   []string
		passes int  // at least
		short  bool // runs without TARN_LONG=1
	}{
		{tarns, "backend/smb", "/rclone", []string{"-test.run=TestIntegration$"}, 80, true},
		{tarns, "fs/operations", "", nil, 200, false},
		{tarns, "fs/sync", "", nil, 130, false},
		{tarnsmb, "fs/operations", "", nil, 200, true},
		{tarnsmb, "fs/sync", "", nil, 130, true},
		{tarnsmb, "vfs", "", nil, 100, true},
	} {
		for i, mode := range rig.Modes() {
			if !long && (!suite.short || i > 0) {
				continue
			}
			t.Run(string(suite.variant)+" "+suite.pkg+" "+mode.Name(), func(t *testing.T) {
				srv := startServer(t, mode)
				bin := shop(t).build(t, suite.variant, rclone+"/"+suite.pkg, "test", "-c")
				cmd := exec.Command(bin, append(suite.args, "-remote", srv.share+suite.path, "-test.v", "-test.timeout=15m")...)
				cmd.Dir = filepath.Join(shop(t).rclone, filepath.FromSlash(suite.pkg))
				cmd.Env = srv.env(suite.variant)
				out, err := cmd.CombinedOutput()
				passed := len(regexp.MustCompile(`(?m)^\s*--- PASS`).FindAll(out, -1))
				t.Logf("%d tests passed, %d left out", passed, len(regexp.MustCompile(`(?m)^\s*--- SKIP`).FindAll(out, -1)))
				if err != nil || passed < suite.passes {
					t.Errorf("%v\n%s", err, tail(out))
				}
			})
		}
	}
}

// tail is the end of a run's output, which shows a failure.
func tail(out []byte) []byte {
	var failed []byte
	for _, line := range regexp.MustCompile(`(?m)^\s*--- FAIL.*\n`).FindAll(out, -1) {
		failed = append(failed, line...)
	}
	return append(failed, out[max(0, len(out)-20000):]...)
}
