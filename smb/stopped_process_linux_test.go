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
		var c cutter
		d := smb.Dialer{Initiator: smb.NTLM{User: srv.User, Password: srv.Password}, Pool: newPool(t), DialFunc: through(t, c.dial)}
		d.Limits.DialTimeout = 2 * time.Second // a busy machine may take longer, here and in the attempts below
		before := processes(t, srv.PID())
		sess, err := d.Dial(t.Context(), srv.Addr)
		for errors.Is(err, os.ErrDeadlineExceeded) {
			before = processes(t, srv.PID())
			sess, err = d.Dial(t.Context(), srv.Addr)
		}
		must(t, err)
		defer sess.Close()
		share, err := sess.Mount(t.Context(), srv.Share)
		must(t, err)
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
		c.made = 1
		c.cut()
		b, err := share.ReadFile("file")
		if err == nil && c.made > 3 {
			t.Errorf("%d connections", c.made)
		}
		for errors.Is(err, smb.ErrConnLost) && errors.Is(err, os.ErrDeadlineExceeded) {
			b, err = share.ReadFile("file")
		}
		if err != nil || string(b) != "content" {
			t.Errorf("%q, %v", b, err)
		}
		made := c.made
		if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, smb.ErrHandleLost) {
			t.Errorf("a file that the stopped process has open: %v", err)
		}
		if _, err := share.Stat("file"); err != nil || c.made != made {
			t.Errorf("%d connections, and then %d, %v", made, c.made, err)
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
