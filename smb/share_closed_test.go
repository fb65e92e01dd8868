package smb_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestClosedShare has Samba close a share that is in use, as its administrator can: the share is connected again, directories are
// opened again, and files are lost.
func TestClosedShare(t *testing.T) {
	// With the kernel's notices, Samba reports what changes after its notify daemon has begun to watch, which is not when it has the
	// request.
	eachMode(t, rig.Config{Global: []string{"kernel change notify = no"}}, func(t *testing.T, srv *rig.Server) {
		share := mount(t, srv, smb.Dialer{})
		must(t, share.Mkdir("dir", 0o777))
		must(t, share.WriteFile("dir/a", []byte("a"), 0o666))
		f, err := share.Create("f")
		must(t, err)
		_, err = f.Write([]byte("hello"))
		must(t, err)
		toClose, err := share.Open("f")
		must(t, err)
		dir, err := share.Open("dir")
		must(t, err)
		w, err := share.Watch("", smb.WatchAll)
		must(t, err)
		next := func() error { // fails if Samba reports nothing
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := w.Next(ctx)
			return err
		}
		ended := make(chan error)
		go func() { ended <- next() }()
		must(t, srv.Control("close-share", srv.Share))
		// Next returns with an error that says that the share was closed, or is sent after that.
		if err := <-ended; errors.Is(err, smb.ErrHandleLost) {
			err = next()
			if !errors.Is(err, smb.ErrMissed) {
				t.Error("watching again:", err)
			}
		} else if !errors.Is(err, smb.ErrMissed) {
			t.Error("watching:", err)
		}
		must(t, share.WriteFile("g", nil, 0o666))
		if err := next(); err != nil {
			t.Error("watching:", err)
		}
		must(t, w.Close())
		if list, err := dir.ReadDir(-1); err != nil || len(list) != 1 {
			t.Error(list, err)
		}
		must(t, dir.Close())
		lost := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, smb.ErrHandleLost) || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %v", what, err)
			}
		}
		_, err = f.ReadAt(make([]byte, 5), 0)
		lost("read", err)
		_, err = f.WriteAt([]byte("x"), 0)
		lost("write", err)
		_, err = f.Stat()
		lost("stat", err)
		lost("lock", f.TryLock(0, 1, smb.LockShared))
		lost("close", f.Close())
		toClose.Close() // the server has closed it
		if got := onDisk(t, srv, "f"); string(got) != "hello" {
			t.Errorf("%q", got)
		}
		must(t, share.Rename("f", "h"))
		must(t, share.Session().Echo(t.Context()))
		if open := rigtest.OpenFiles(t, srv); len(open) != 0 {
			t.Error(open)
		}
		must(t, share.Unmount())
	})
}

// TestUnmountOfClosedShare unmounts a share that the server has closed.
func TestUnmountOfClosedShare(t *testing.T) {
	for _, kind := range kinds() {
		s := protections()[kind]
		s.Hook = func(c *script.Conn, m *script.Message) bool {
			if m.Command == proto.CommandTreeDisconnect {
				c.Refuse(m, proto.StatusNetworkNameDeleted)
				return true
			}
			return false
		}
		f, err := scripted(t, s, smb.Dialer{})
		must(t, err)
		if err := f.Share().Unmount(); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// TestFileClosedByServer has the server close a file that is open, as its administrator can.
func TestFileClosedByServer(t *testing.T) {
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) {
			s := protections()[kind]
			s.Hook = func(c *script.Conn, m *script.Message) bool {
				switch m.Command {
				case proto.CommandRead, proto.CommandWrite, proto.CommandFlush, proto.CommandLock, proto.CommandClose:
					c.Refuse(m, proto.StatusFileClosed)
					return true
				}
				return false
			}
			f, err := scripted(t, s, smb.Dialer{})
			must(t, err)
			share := f.Share()
			for what, op := range map[string]func(*smb.File) error{
				"read":       func(f *smb.File) error { _, err := f.ReadAt(make([]byte, 5), 0); return err },
				"long read":  func(f *smb.File) error { _, err := f.ReadAt(make([]byte, 4<<20), 0); return err },
				"ReadBuffer": func(f *smb.File) error { _, err := f.ReadBuffer(t.Context(), 0, 5); return err },
				"write":      func(f *smb.File) error { _, err := f.WriteAt([]byte("x"), 0); return err },
				"sync":       (*smb.File).Sync,
				"lock":       func(f *smb.File) error { return f.TryLock(0, 1, smb.LockShared) },
				"close":      (*smb.File).Close,
			} {
				f, err := share.Open("file")
				must(t, err)
				if err := op(f); !errors.Is(err, smb.ErrHandleLost) {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
}

// TestMissingShare takes the share's directory away from a server whose connection is lost, as when a disk is not mounted after a
// restart. No call may take that as the absence of its file.
func TestMissingShare(t *testing.T) {
	eachMode(t, rig.Config{}, func(t *testing.T, srv *rig.Server) {
		var c cutter
		share := mount(t, srv, smb.Dialer{DialFunc: through(t, c.dial)})
		must(t, share.Mkdir("dir", 0o777))
		must(t, share.WriteFile("dir/f", []byte("content"), 0o666))
		f, err := share.Open("dir/f")
		must(t, err)
		must(t, os.Rename(srv.Dir, srv.Dir+".away"))
		c.cut()
		share.Stat("dir") // finds the loss, and is repeated; RemoveAll and Rename would fail with ErrConnLost
		for what, op := range map[string]func() error{
			"RemoveAll":    func() error { return share.RemoveAll("dir") },
			"Stat":         func() error { _, err := share.Stat("dir"); return err },
			"ReadFile":     func() error { _, err := share.ReadFile("dir/f"); return err },
			"ReadDir":      func() error { _, err := share.ReadDir("dir"); return err },
			"Rename":       func() error { return share.Rename("dir", "other") },
			"an open file": func() error { _, err := f.ReadAt(make([]byte, 1), 0); return err },
		} {
			var status smb.Status
			err := op()
			if !errors.Is(err, smb.ErrShareLost) || errors.Is(err, fs.ErrNotExist) || !errors.As(err, &status) || !errors.Is(err, status) {
				t.Errorf("%s: %v", what, err)
			}
		}
		// The name that Mount is about is the share's.
		if _, err := share.Session().Mount(t.Context(), srv.Share); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		must(t, os.Rename(srv.Dir+".away", srv.Dir))
		if b, err := share.ReadFile("dir/f"); err != nil || string(b) != "content" {
			t.Errorf("%q, %v", b, err)
		}
		f.Close() // kept or not
	})
}
