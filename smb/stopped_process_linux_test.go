package smb_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/smb"
)

// TestStoppedProcess stops the Samba process of a session and loses the connection: the session continues on another process.
func TestStoppedProcess(t *testing.T) {
	eachMode(t, rig.Config{Share: durableShare()}, func(t *testing.T, srv *rig.Server) {
		before := processes(t, srv.PID())
		var c cutter
		share := mount(t, srv, smb.Dialer{DialFunc: through(t, c.dial), Limits: smb.Limits{DialTimeout: 2 * time.Second}})
		must(t, share.WriteFile("file", []byte("content"), 0o666))
		f, err := share.Open("file")
		must(t, err)
		defer f.Close()
		for pid := range processes(t, srv.PID()) {
			if !before[pid] {
				must(t, syscall.Kill(pid, syscall.SIGSTOP))
				defer syscall.Kill(pid, syscall.SIGCONT)
			}
		}
		c.cut()
		for range 3 {
			if b, err := share.ReadFile("file"); err != nil || string(b) != "content" {
				t.Errorf("%q, %v", b, err)
			}
		}
		if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, smb.ErrHandleLost) {
			t.Errorf("a file that the stopped process has open: %v", err)
		}
		if _, err := share.Stat("file"); err != nil || c.made > 3 {
			t.Errorf("%d connections, %v", c.made, err)
		}
	})
}

// processes are those of a session of the system.
func processes(t *testing.T, session int) map[int]bool {
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	must(t, err)
	found := map[int]bool{}
	for _, name := range all {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		_, fields, _ := strings.Cut(string(b), ") ")
		if f := strings.Fields(fields); len(f) > 3 && f[3] == strconv.Itoa(session) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			must(t, err)
			found[pid] = true
		}
	}
	return found
}
