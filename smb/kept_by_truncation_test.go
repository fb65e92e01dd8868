package smb_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
)

// TestKeptByTruncation replaces the content of files by the calls that truncate, with shorter and longer content: what else they have stays.
func TestKeptByTruncation(t *testing.T) {
	srv := rigtest.Start(t, rig.Config{Share: []string{"vfs objects = streams_xattr", "ea support = yes"}})
	share := mount(t, srv, smb.Dialer{})
	write := func(f *smb.File, err error, data []byte) error {
		if err != nil {
			return err
		}
		if _, err = f.Write(data); err != nil {
			return err
		}
		return f.Close()
	}
	for what, replace := range map[string]func(data []byte) error{
		"WriteFile":           func(data []byte) error { return share.WriteFile("file", data, 0o666) },
		"WriteFile read-only": func(data []byte) error { return share.WriteFile("file", data, 0o444) },
		"Create": func(data []byte) error {
			f, err := share.Create("file")
			return write(f, err, data)
		},
		"O_TRUNC": func(data []byte) error {
			f, err := share.OpenFile("file", os.O_WRONLY|os.O_TRUNC, 0o666)
			return write(f, err, data)
		},
	} {
		for _, size := range []int{0, 10, 5000, 300_000} {
			must(t, share.RemoveAll("file"))
			must(t, share.RemoveAll("other"))
			must(t, share.WriteFile("file", random(4000), 0o666))
			disk := filepath.Join(srv.Dir, "file")
			must(t, os.Chmod(disk, 0o640))
			must(t, os.Link(disk, filepath.Join(srv.Dir, "other")))
			must(t, share.SetExtendedAttribute("file", "KEY", []byte("value")))
			s, err := share.OpenStream("file", "stream", os.O_WRONLY|os.O_CREATE, 0o666)
			must(t, write(s, err, []byte("in the stream")))
			before, err := share.Stat("file")
			must(t, err)
			data := random(size)
			must(t, replace(data))
			got, err := os.ReadFile(filepath.Join(srv.Dir, "other"))
			must(t, err)
			if !bytes.Equal(got, data) {
				t.Errorf("%s %d: the file's other name has %d bytes", what, size, len(got))
			}
			fi, err := os.Stat(disk)
			must(t, err)
			other, err := os.Stat(filepath.Join(srv.Dir, "other"))
			must(t, err)
			if fi.Mode() != 0o640 || !os.SameFile(fi, other) {
				t.Errorf("%s %d: mode %v, one file with its other name: %v", what, size, fi.Mode(), os.SameFile(fi, other))
			}
			after, err := share.Stat("file")
			must(t, err)
			was, is := before.Sys().(*smb.FileStat), after.Sys().(*smb.FileStat)
			if !was.CreationTime.Equal(is.CreationTime) || was.FileAttributes != is.FileAttributes {
				t.Errorf("%s %d: created %v, then %v; attributes %x, then %x", what, size, was.CreationTime, is.CreationTime, was.FileAttributes, is.FileAttributes)
			}
			if all, err := share.ExtendedAttributes("file"); err != nil || string(all["KEY"]) != "value" {
				t.Errorf("%s %d: attributes %q, %v", what, size, all, err)
			}
			if list, err := share.Streams("file"); err != nil || len(list) != 1 || list[0].Size != int64(len("in the stream")) {
				t.Errorf("%s %d: streams %v, %v", what, size, list, err)
			}
		}
	}
}
