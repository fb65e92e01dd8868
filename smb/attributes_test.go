package smb_test

import (
	"errors"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// TestSetAttributes sets times of creation and attributes of files and directories, which the server keeps.
func TestSetAttributes(t *testing.T) {
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			share, err := dial(t, rigtest.Start(t, rig.Config{Mode: mode}), smb.Dialer{}).Mount(t.Context(), "share")
			must(t, err)
			made := time.Date(2001, 2, 3, 4, 5, 6, 700, time.UTC)
			const given = proto.AttrReadOnly | proto.AttrHidden | proto.AttrSystem | proto.AttrArchive
			has := func(name string, created time.Time, attributes proto.Attributes) {
				t.Helper()
				fi, err := share.Stat(name)
				must(t, err)
				st := fi.Sys().(*smb.FileStat)
				if !st.CreationTime.Equal(created) || proto.Attributes(st.FileAttributes) != attributes {
					t.Errorf("%s: created %v, attributes %x; want %v, %x", name, st.CreationTime, st.FileAttributes, created, attributes)
				}
			}
			set := func(f *smb.File, created time.Time, attributes proto.Attributes) {
				t.Helper()
				must(t, f.SetAttributes(created, uint32(attributes)))
				must(t, f.Close())
			}
			attributesOf := func(name string) *smb.File {
				t.Helper()
				f, err := share.OpenAttributes(name)
				must(t, err)
				return f
			}

			f, err := share.Create("file")
			must(t, err)
			_, err = f.WriteString("content")
			must(t, err)
			queried, err := f.ID()
			must(t, err)
			set(f, made, given|proto.AttrDirectory|proto.AttrSparse)
			has("file", made, given)

			f = attributesOf("file")
			if id, err := f.ID(); id != queried || err != nil || id == 0 {
				t.Errorf("CREATE has returned the id %d, %v; a query %d", id, err, queried)
			}
			if _, err := f.Read(make([]byte, 1)); !errors.Is(err, fs.ErrPermission) {
				t.Errorf("read: %v", err)
			}
			if _, err := f.WriteAt([]byte("x"), 0); !errors.Is(err, fs.ErrPermission) {
				t.Errorf("written: %v", err)
			}
			if err := f.SetAttributes(time.Date(1600, 1, 1, 0, 0, 0, 0, time.UTC), 0); !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("set to 1600: %v", err)
			}
			must(t, f.Chtimes(time.Time{}, made.Add(time.Hour)))
			set(f, time.Time{}, 0)
			has("file", made, given)
			set(attributesOf("file"), made.Add(time.Minute), 0)
			has("file", made.Add(time.Minute), given)
			set(attributesOf("file"), time.Time{}, proto.AttrNormal)
			has("file", made.Add(time.Minute), proto.AttrNormal)
			f, err = share.OpenFile("file", os.O_RDWR, 0)
			must(t, err)
			must(t, f.Close())

			must(t, share.Mkdir("dir", 0o777))
			set(attributesOf("dir"), made, proto.AttrHidden)
			has("dir", made, proto.AttrHidden|proto.AttrDirectory)
			if _, err := share.OpenAttributes("missing"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("missing: %v", err)
			}

			set(attributesOf("file"), time.Time{}, given)
			if err := share.RenameNoReplaceIf("file", "dir", func(fs.FileInfo) error { return nil }); !errors.Is(err, fs.ErrExist) {
				t.Errorf("renamed to a directory: %v", err)
			}
			refusal := errors.New("refused")
			if err := share.RenameIf("file", "other", func(fs.FileInfo) error { return refusal }); !errors.Is(err, refusal) {
				t.Errorf("renamed: %v", err)
			}
			must(t, share.WriteFile("other", []byte("another"), 0o666))
			must(t, share.RenameIf("file", "other", func(fi fs.FileInfo) error {
				if fi.Size() != 7 || fi.Mode()&0o200 != 0 {
					t.Error(fi)
				}
				return nil
			}))
			has("other", made.Add(time.Minute), given)
			must(t, share.RenameNoReplaceIf("dir", "moved", func(fi fs.FileInfo) error {
				if !fi.IsDir() {
					t.Error(fi)
				}
				return nil
			}))
			has("moved", made, proto.AttrHidden|proto.AttrDirectory)
		})
	}
}
