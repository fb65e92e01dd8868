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
//
// fs/operations copies by several threads in chunks of 1 MiB rather than 64: its tests make nine files of two chunks and more, a
// character at a time, and then passed 15 minutes on a loaded machine.
//
// vfs runs without notification of changes: several of its tests write to the remote behind the cache, and then require that the cache
// has not noticed. Other backends poll once a minute. This one is notified within milliseconds, during the test or after it, and the cache
// then shows what is on the server. smb/rclone tests the notification.
func TestSuites(t *testing.T) {
	long := os.Getenv("TARN_LONG") == "1"
	for _, suite := range []struct {
		variant
		pkg    string
		path   string // in the share
		args   []string
		env    []string
		passes int  // at least
		short  bool // runs without TARN_LONG=1
	}{
		{tarns, "backend/smb", "/rclone", []string{"-test.run=TestIntegration$"}, nil, 80, true},
		{tarns, "fs/operations", "", nil, []string{"RCLONE_MULTI_THREAD_CHUNK_SIZE=1Mi"}, 200, false},
		{tarns, "fs/sync", "", nil, nil, 130, false},
		{tarnsmb, "fs/operations", "", nil, []string{"RCLONE_MULTI_THREAD_CHUNK_SIZE=1Mi"}, 200, true},
		{tarnsmb, "fs/sync", "", nil, nil, 130, true},
		{tarnsmb, "vfs", "", nil, []string{"RCLONE_POLL_INTERVAL=0"}, 300, true},
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
				cmd.Env = append(srv.env(suite.variant), suite.env...)
				out, err := cmd.CombinedOutput()
				passed := count("PASS", out)
				t.Logf("%d tests passed, %d left out", passed, count("SKIP", out))
				if err != nil || passed < suite.passes {
					t.Errorf("%v\n%s", err, tail(out))
				}
			})
		}
	}
}

// count is how many tests of a run had an outcome.
func count(outcome string, out []byte) int {
	return len(regexp.MustCompile(`(?m)^\s*--- `+outcome).FindAll(out, -1))
}

// uneventful matches the lines of a run that say nothing of a failure.
var uneventful = regexp.MustCompile(`(?m)^\s*(=== (RUN|PAUSE|CONT|NAME)|--- (PASS|SKIP)|run\.go:).*\n`)

// tail is the end of a run's output, without what passed.
func tail(out []byte) []byte {
	out = uneventful.ReplaceAll(out, nil)
	return out[max(0, len(out)-20000):]
}
