package smb_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestReadOnlyShare holds that whatever changes a read-only share is refused with an error that matches
// fs.ErrPermission and changes nothing, and that reading works.
func TestReadOnlyShare(t *testing.T) {
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			srv := rigtest.Start(t, rig.Config{Mode: mode})
			must(t, os.Mkdir(filepath.Join(srv.Dir, "dir"), 0o777))
			must(t, srv.Own(filepath.Join(srv.Dir, "dir")))
			name := filepath.Join(srv.Dir, "dir", "file")
			must(t, os.WriteFile(name, []byte("content"), 0o666))
			must(t, srv.Own(name))
			share, err := dial(t, srv, smb.Dialer{}).Mount(t.Context(), "readonly")
			must(t, err)
			when := time.Unix(1_000_000_000, 0)
			long := make([]byte, 100<<10)
			for what, op := range map[string]func() error{
				"Create":         func() error { _, err := share.Create("dir/new"); return err },
				"Create over":    func() error { _, err := share.Create("dir/file"); return err },
				"OpenFile":       func() error { _, err := share.OpenFile("dir/file", os.O_RDWR, 0); return err },
				"append":         func() error { _, err := share.OpenFile("dir/file", os.O_WRONLY|os.O_APPEND, 0); return err },
				"WriteFile":      func() error { return share.WriteFile("dir/file", []byte("x"), 0o666) },
				"WriteFile long": func() error { return share.WriteFile("dir/file", long, 0o666) },
				"WriteNewFile":   func() error { return share.WriteNewFile("dir/new", long, 0o666, when) },
				"ReplaceFile":    func() error { return share.ReplaceFile("dir/file", []byte("x"), 0o666, when) },
				"Mkdir":          func() error { return share.Mkdir("dir/sub", 0o777) },
				"Remove":         func() error { return share.Remove("dir/file") },
				"Remove dir":     func() error { return share.Remove("dir") },
				"RemoveAll":      func() error { return share.RemoveAll("dir") },
				"Rename":         func() error { return share.Rename("dir/file", "dir/other") },
				"Truncate":       func() error { return share.Truncate("dir/file", 1) },
				"Chtimes":        func() error { return share.Chtimes("dir/file", when, when) },
				"Chmod":          func() error { return share.Chmod("dir/file", 0o444) },
				"Copy":           func() error { _, err := share.Copy("dir/copy", "dir/file"); return err },
			} {
				if err := op(); !errors.Is(err, fs.ErrPermission) {
					t.Errorf("%s: %v", what, err)
				}
			}
			b, fi, err := share.ReadFileInfo("dir/file")
			if err != nil || string(b) != "content" || fi.ModTime().Equal(when) {
				t.Errorf("%q, %v, %v", b, fi, err)
			}
			if list, err := share.ReadDir("dir"); err != nil || len(list) != 1 {
				t.Errorf("%v, %v", list, err)
			}
		})
	}
}

// TestQuota meets a server that refuses a WRITE because the user's quota is used up, or because its file system cannot hold a longer
// file: what was written before is counted, and the error matches syscall.EDQUOT, or syscall.EFBIG.
func TestQuota(t *testing.T) {
	for status, want := range map[proto.Status]error{
		proto.StatusQuotaExceeded: syscall.EDQUOT, proto.StatusDiskQuotaExceeded: syscall.EDQUOT,
		proto.StatusFileSystemLimitation: syscall.EFBIG, proto.StatusFileTooLarge: syscall.EFBIG,
	} {
		for _, kind := range []string{"plain", "signed/GMAC", "encrypted/GCM"} {
			t.Run(status.String()+"/"+kind, func(t *testing.T) {
				writes := 0
				s := protections()[kind]
				s.Hook = func(c *script.Conn, m *script.Message) bool {
					if m.Command == proto.CommandWrite {
						if writes++; writes > 2 {
							c.Refuse(m, status)
							return true
						}
					}
					return false
				}
				f, err := scripted(t, s, smb.Dialer{})
				must(t, err)
				if n, err := f.WriteAt(make([]byte, 6<<20), 0); n == 0 || n >= 6<<20 || !errors.Is(err, want) {
					t.Errorf("%d, %v", n, err)
				}
				if err := f.Share().ReplaceFile("name", make([]byte, 6<<20), 0o666, time.Time{}); !errors.Is(err, want) {
					t.Error(err)
				}
			})
		}
	}
}
