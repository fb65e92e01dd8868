package afero_test

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	base "github.com/spf13/afero"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/afero"
	"github.com/tarn-go/tarn/tarntest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mount(t *testing.T, mode rig.Mode) *afero.FS {
	t.Helper()
	srv := rigtest.Start(t, rig.Config{Mode: mode})
	d := smb.Dialer{Initiator: smb.NTLM{User: srv.User, Password: srv.Password}, Pool: tarntest.NewPool(t)}
	s, err := d.Dial(t.Context(), srv.Addr)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	share, err := s.Mount(t.Context(), srv.Share)
	must(t, err)
	return afero.New(share)
}

// The helpers of package afero (ReadFile, WriteFile, Walk, ...) work on this Fs.
func TestFS(t *testing.T) {
	for _, mode := range []rig.Mode{rig.Plain, rig.Signed, rig.Encrypted} {
		t.Run(mode.Name(), func(t *testing.T) {
			afs := mount(t, mode)
			must(t, afs.MkdirAll("/a/b", 0o755))
			must(t, base.WriteFile(afs, "a/b/one", []byte("1"), 0o644))
			must(t, base.SafeWriteReader(afs, "a/c/two", strings.NewReader("2")))
			if exists, err := base.Exists(afs, "none"); exists || err != nil {
				t.Error(exists, err)
			}
			if err := base.SafeWriteReader(afs, "a/c/two", strings.NewReader("2")); err == nil {
				t.Error("written over existing content")
			}
			must(t, base.WriteFile(afs, "a/c/two", []byte("22"), 0o644))
			testFS(t, base.NewIOFS(base.NewBasePathFs(afs, "a")), "b/one", "c/two")
			cached := base.NewCopyOnWriteFs(base.NewReadOnlyFs(afs), base.NewMemMapFs())
			must(t, base.WriteFile(cached, "a/b/one", []byte("changed"), 0o644))
			if b, err := base.ReadFile(afs, "a/b/one"); string(b) != "1" || err != nil {
				t.Errorf("%q, %v", b, err)
			}
			f, err := base.TempFile(afs, "a", "temp")
			must(t, err)
			_, err = f.WriteString("x")
			must(t, err)
			must(t, f.Close())
			when := time.Unix(1_700_000_000, 0)
			must(t, afs.Chtimes("a/b/one", when, when))
			must(t, afs.Chmod("a/b/one", 0o444))
			fi, lstat, err := afs.LstatIfPossible("a/b/one")
			if err != nil || !lstat || !fi.ModTime().Equal(when) || fi.Mode() != 0o444 {
				t.Error(fi, err)
			}
			must(t, afs.Rename("a/b/one", "a/moved"))
			if err := afs.Mkdir("a/b", 0o755); !os.IsExist(err) {
				t.Error(err)
			}
			if _, err := afs.Open("a/b/one"); !os.IsNotExist(err) {
				t.Error(err)
			}
			if err := afs.Chown("a", 1, 1); !errors.Is(err, errors.ErrUnsupported) {
				t.Error(err)
			}
			if err := afs.SymlinkIfPossible("moved", "a/link"); err == nil { // Samba refuses
				_, err := afs.ReadlinkIfPossible("a/link")
				must(t, err)
			}
			must(t, afs.RemoveAll("a"))
			if err := afs.Remove("a"); !os.IsNotExist(err) {
				t.Error(err)
			}
		})
	}
}

// testFS is fstest.TestFS, except that a backslash may separate names: afero joins names with the operating
// system's separator.
func testFS(t *testing.T, fsys fs.FS, expected ...string) {
	t.Helper()
	err := fstest.TestFS(fsys, expected...)
	if err == nil {
		return
	}
	for line := range strings.Lines(err.Error()) {
		if !strings.HasPrefix(line, "TestFS found errors") && !strings.Contains(line, `\`) {
			t.Error(line)
		}
	}
}
