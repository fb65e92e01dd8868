package smb_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/smb"
)

// TestLink makes hard links on Samba.
func TestLink(t *testing.T) {
	eachMode(t, rig.Config{}, func(t *testing.T, srv *rig.Server) {
		share := mount(t, srv, smb.Dialer{})
		must(t, share.WriteFile("file", []byte("content"), 0o666))
		must(t, share.Mkdir("dir", 0o777))
		must(t, share.Link("file", "dir/link"))
		a, err := os.Stat(filepath.Join(srv.Dir, "file"))
		must(t, err)
		b, err := os.Stat(filepath.Join(srv.Dir, "dir", "link"))
		must(t, err)
		if !os.SameFile(a, b) {
			t.Error("not the same file")
		}
		if err := share.Link("file", "dir/link"); !errors.Is(err, fs.ErrExist) {
			t.Errorf("to a name that exists: %v", err)
		}
		if err := share.Link("none", "other"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("of a file that does not exist: %v", err)
		}
		if err := share.Link("file", "none/other"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("in a directory that does not exist: %v", err)
		}
		if err := share.Link("dir", "other"); err == nil {
			t.Error("of a directory: nil")
		}
		if err := share.Link("file", "../x"); !errors.Is(err, smb.ErrName) {
			t.Errorf("outside of the share: %v", err)
		}
	})
}
