package smb_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
)

// TestRemoveAllGoesOn has RemoveAll meet a file that cannot be removed: it removes the others, and returns the error.
func TestRemoveAllGoesOn(t *testing.T) {
	srv := rigtest.Start(t, rig.Config{})
	sess := dial(t, srv, smb.Dialer{})
	share, err := sess.Mount(t.Context(), srv.Share)
	must(t, err)
	for _, dir := range []string{"d", "d/a", "d/m", "d/z"} {
		must(t, share.Mkdir(dir, 0o777))
		must(t, share.WriteFile(dir+"/file", []byte("x"), 0o666))
	}
	kept := filepath.Join(srv.Dir, "d", "m")
	must(t, os.Chmod(kept, 0o555)) // nothing can be removed from it
	t.Cleanup(func() { os.Chmod(kept, 0o755) })
	err = share.RemoveAll("d")
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "file") {
		t.Errorf("%v", err)
	}
	var left []string
	must(t, fs.WalkDir(os.DirFS(srv.Dir), "d", func(name string, _ fs.DirEntry, err error) error {
		left = append(left, name)
		return err
	}))
	if got := strings.Join(left, " "); got != "d d/m d/m/file" {
		t.Errorf("left: %s", got)
	}
}
