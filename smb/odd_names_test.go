package smb_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
)

// TestOddNames makes, lists, reads, renames and removes files and directories whose names are unusual and allowed, by
// every method that takes a name; the server's disk has the same names.
func TestOddNames(t *testing.T) {
	names := []string{
		" leading", "-rf", "~", "%41", "%", "$x", "a&b", "[x]", "{y}", "a;b", "a'b", "a,b=c+d@e!", "#", "`x`", "x..y", "...x",
		".hidden", "ÄÖÜ ß", "Ａ", "日本語", "😀🏳️‍🌈", "e\u0301", "\u00e9", "שלום", "\u200bzero", "\u2028", "\ufeff",
		strings.Repeat("x", 255), strings.Repeat("é", 127), "desktop.ini", "x.lnk", "a.b.c.d",
	}
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			srv := rigtest.Start(t, rig.Config{Mode: mode, Share: []string{"mangled names = no"}})
			share := mount(t, srv, smb.Dialer{})
			must(t, share.MkdirAll("made/dirs", 0o777))
			for _, name := range names {
				content := []byte("content of " + name)
				file, dir := path.Join("made", name), path.Join("made/dirs", name)
				if err := share.WriteFile(file, content, 0o666); err != nil {
					t.Errorf("WriteFile(%q): %v", name, err)
					continue
				}
				if err := share.Mkdir(dir, 0o777); err != nil {
					t.Errorf("Mkdir(%q): %v", name, err)
					continue
				}
				if b, err := os.ReadFile(filepath.Join(srv.Dir, file)); err != nil || string(b) != string(content) {
					t.Errorf("%q on the disk: %q, %v", name, b, err)
				}
				must(t, share.ReplaceFile(file, content, 0o666, time.Unix(1_000_000_000, 0)))
				if b, err := share.ReadFile(file); err != nil || string(b) != string(content) {
					t.Errorf("ReadFile(%q): %q, %v", name, b, err)
				}
				if fi, err := share.Stat(file); err != nil || fi.Name() != name || fi.Size() != int64(len(content)) {
					t.Errorf("Stat(%q): %v, %v", name, fi, err)
				}
				if fi, err := share.Stat(dir); err != nil || fi.Name() != name || !fi.IsDir() {
					t.Errorf("Stat(%q), a directory: %v, %v", name, fi, err)
				}
				must(t, share.Rename(file, path.Join(dir, "moved")))
				must(t, share.Rename(path.Join(dir, "moved"), path.Join(dir, name)))
			}
			want := slices.Sorted(slices.Values(names))
			list, err := share.ReadDir("made/dirs")
			must(t, err)
			var listed, walked []string
			for _, e := range list {
				listed = append(listed, e.Name())
			}
			must(t, share.WalkDir("made/dirs", func(name string, d fs.DirEntry, err error) error {
				if !d.IsDir() {
					walked = append(walked, path.Base(name))
				}
				return err
			}))
			slices.Sort(walked)
			if !slices.Equal(listed, want) {
				t.Errorf("listed %q, want %q", listed, want)
			}
			if !slices.Equal(walked, want) {
				t.Errorf("walked %q, want %q", walked, want)
			}
			must(t, share.RemoveAll("made"))
			if left, err := os.ReadDir(srv.Dir); err != nil || len(left) != 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}
