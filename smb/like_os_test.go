package smb_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/smb"
)

// TestPermissionOfExistingFile opens and writes existing files with a mode that makes new ones read-only: they stay writable.
func TestPermissionOfExistingFile(t *testing.T) {
	eachMode(t, rig.Config{}, func(t *testing.T, srv *rig.Server) {
		share := mount(t, srv, smb.Dialer{})
		for name, write := range map[string]func(name string) error{
			"WriteFile":       func(name string) error { return share.WriteFile(name, []byte("x"), 0o444) },
			"WriteFile, long": func(name string) error { return share.WriteFile(name, make([]byte, 100_000), 0o444) },
			"OpenFile": func(name string) error {
				f, err := share.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o444)
				if err != nil {
					return err
				}
				if _, err := f.Write([]byte("x")); err != nil {
					t.Error(err)
				}
				return f.Close()
			},
		} {
			must(t, share.WriteFile(name, []byte("longer than that"), 0o666))
			if err := write(name); err != nil {
				t.Errorf("%s, existing: %v", name, err)
			}
			if b := onDisk(t, srv, name); string(b) != "x" && len(b) != 100_000 {
				t.Errorf("%s, existing: %q", name, b)
			}
			fi, err := share.Stat(name)
			must(t, err)
			if fi.Mode().Perm() != 0o666 {
				t.Errorf("%s made an existing file %v", name, fi.Mode())
			}
			must(t, share.Remove(name))
			if err := write(name); err != nil {
				t.Errorf("%s, new: %v", name, err)
			}
			if b := onDisk(t, srv, name); string(b) != "x" && len(b) != 100_000 {
				t.Errorf("%s, new: %q", name, b)
			}
			if fi, err = share.Stat(name); err != nil || fi.Mode().Perm() != 0o444 {
				t.Errorf("%s made a new file %v, %v", name, fi.Mode(), err)
			}
			if err := write(name); !errors.Is(err, fs.ErrPermission) {
				t.Errorf("%s, read-only: %v", name, err)
			}
			if err := write("missing/" + name); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s, in no directory: %v", name, err)
			}
		}
	})
}

// TestNamesOfWholeFiles holds that the calls that write all of a file take the same names as OpenFile.
func TestNamesOfWholeFiles(t *testing.T) {
	eachMode(t, rig.Config{}, func(t *testing.T, srv *rig.Server) {
		share := mount(t, srv, smb.Dialer{})
		must(t, share.Mkdir("dir", 0o777))
		for _, size := range []int{10, 100_000} {
			data := random(size)
			for _, name := range []string{"x/", `dir\x\`, "x/.", "dir/x/y/..", "./x", "/x", "dir//x", "x//"} {
				for how, write := range map[string]func() error{
					"WriteFile":    func() error { return share.WriteFile(name, data, 0o666) },
					"WriteNewFile": func() error { return share.WriteNewFile(name, data, 0o666, time.Time{}) },
					"ReplaceFile":  func() error { return share.ReplaceFile(name, data, 0o666, time.Time{}) },
				} {
					if err := write(); err != nil {
						t.Errorf("%s of %d bytes to %q: %v", how, size, name, err)
						continue
					}
					if b, err := share.ReadFile(name); err != nil || !bytes.Equal(b, data) {
						t.Errorf("%s of %d bytes to %q: read %d, %v", how, size, name, len(b), err)
					}
					must(t, share.Remove(name))
				}
			}
		}
	})
}

// TestAppendPosition compares the position of a file that is opened with os.O_APPEND with that of a local file.
func TestAppendPosition(t *testing.T) {
	steps := []func(f io.ReadWriteSeeker) (int64, error){
		func(f io.ReadWriteSeeker) (int64, error) { n, err := f.Write([]byte("hello\n")); return int64(n), err },
		func(f io.ReadWriteSeeker) (int64, error) { return f.Seek(0, io.SeekCurrent) },
		func(f io.ReadWriteSeeker) (int64, error) { return f.Seek(2, io.SeekStart) },
		func(f io.ReadWriteSeeker) (int64, error) { n, err := f.Read(make([]byte, 2)); return int64(n), err },
		func(f io.ReadWriteSeeker) (int64, error) { n, err := f.Write([]byte("world\n")); return int64(n), err },
		func(f io.ReadWriteSeeker) (int64, error) { n, err := f.Read(make([]byte, 2)); return int64(n), err },
		func(f io.ReadWriteSeeker) (int64, error) { return f.Seek(0, io.SeekCurrent) },
		func(f io.ReadWriteSeeker) (int64, error) { return io.Copy(f, strings.NewReader("copied")) },
		func(f io.ReadWriteSeeker) (int64, error) { return f.Seek(-3, io.SeekCurrent) },
		func(f io.ReadWriteSeeker) (int64, error) { b, err := io.ReadAll(f); return int64(len(b)), err },
	}
	eachMode(t, rig.Config{}, func(t *testing.T, srv *rig.Server) {
		share := mount(t, srv, smb.Dialer{})
		const flags = os.O_RDWR | os.O_APPEND | os.O_CREATE
		local, err := os.OpenFile(filepath.Join(t.TempDir(), "log"), flags, 0o666)
		must(t, err)
		defer local.Close()
		remote, err := share.OpenFile("log", flags, 0o666)
		must(t, err)
		defer remote.Close()
		for i, step := range steps {
			n, err := step(local)
			if m, rerr := step(remote); m != n || rerr != err {
				t.Errorf("step %d: %d, %v; a local file: %d, %v", i, m, rerr, n, err)
			}
		}
	})
}

// TestErrorsLikeOS holds that refusals match the errors that package os returns on Unix.
func TestErrorsLikeOS(t *testing.T) {
	eachMode(t, rig.Config{}, func(t *testing.T, srv *rig.Server) {
		share := mount(t, srv, smb.Dialer{})
		must(t, share.WriteFile("file", nil, 0o666))
		must(t, share.MkdirAll("dir/sub", 0o777))
		open := func(flag int) error {
			f, err := share.OpenFile("dir", flag, 0o666)
			if err == nil {
				f.Close()
			}
			return err
		}
		long := strings.Repeat("ö", 200) // as many as SMB allows, and more bytes than Linux does
		_, readErr := share.ReadFile("dir")
		_, listErr := share.ReadDir("file")
		for _, c := range []struct {
			what string
			err  error
			want error
		}{
			{"open a directory for writing", open(os.O_RDWR), syscall.EISDIR},
			{"create a file where a directory is", open(os.O_RDWR | os.O_CREATE), syscall.EISDIR},
			{"create a file with O_EXCL where a directory is", open(os.O_RDWR | os.O_CREATE | os.O_EXCL), fs.ErrExist},
			{"write a directory", share.WriteFile("dir", nil, 0o666), syscall.EISDIR},
			{"write a new file where a directory is", share.WriteNewFile("dir", nil, 0o666, time.Time{}), fs.ErrExist},
			{"write a long new file where a directory is", share.WriteNewFile("dir", make([]byte, 100_000), 0o666, time.Time{}), fs.ErrExist},
			{"read a directory", readErr, syscall.EISDIR},
			{"list a file", listErr, syscall.ENOTDIR},
			{"make a directory where a file is", share.MkdirAll("file", 0o777), syscall.ENOTDIR},
			{"remove a directory", share.Remove("dir"), syscall.ENOTEMPTY},
			{"remove a directory", share.Remove("dir"), fs.ErrExist},
			{"a name that is too long for the server", share.WriteFile(long, nil, 0o666), smb.ErrName},
			{"a name that is too long for the server", share.Mkdir(long, 0o777), fs.ErrInvalid},
		} {
			if !errors.Is(c.err, c.want) {
				t.Errorf("%s: %v, which does not match %v", c.what, c.err, c.want)
			}
		}
		if list, err := os.ReadDir(srv.Dir); err != nil || fmt.Sprint(list) != "[d dir/ - file]" {
			t.Error(list, err)
		}
	})
}

// TestReplaceOpenFile replaces files that are open. Samba refuses if the file is open on the same connection, and ReplaceFile then leaves
// nothing behind. A file that is open on another one is replaced, and stays readable there. A file that is open can be renamed.
func TestReplaceOpenFile(t *testing.T) {
	eachMode(t, rig.Config{}, func(t *testing.T, srv *rig.Server) {
		share, other := mount(t, srv, smb.Dialer{}), mount(t, srv, smb.Dialer{})
		must(t, share.WriteFile("doc", []byte("old"), 0o666))
		must(t, share.WriteFile("new", []byte("new"), 0o666))
		same, err := share.Open("doc")
		must(t, err)
		for what, err := range map[string]error{
			"ReplaceFile":            share.ReplaceFile("doc", []byte("new"), 0o666, time.Time{}),
			"ReplaceFile, long":      share.ReplaceFile("doc", make([]byte, 100_000), 0o666, time.Time{}),
			"ReplaceFile, read-only": share.ReplaceFile("doc", []byte("new"), 0o444, time.Time{}),
			"Rename":                 share.Rename("new", "doc"),
		} {
			if !errors.Is(err, fs.ErrPermission) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if list, err := os.ReadDir(srv.Dir); err != nil || len(list) != 2 || string(onDisk(t, srv, "doc")) != "old" {
			t.Errorf("%v, %v", list, err)
		}
		must(t, share.Rename("doc", "renamed"))
		must(t, share.Rename("renamed", "doc"))
		must(t, same.Close())
		f, err := other.Open("doc")
		must(t, err)
		must(t, share.ReplaceFile("doc", []byte("new"), 0o666, time.Time{}))
		b, err := io.ReadAll(f)
		if err != nil || string(b) != "old" {
			t.Errorf("the file that was replaced: %q, %v", b, err)
		}
		must(t, f.Close())
		if b, err = other.ReadFile("doc"); err != nil || string(b) != "new" {
			t.Errorf("%q, %v", b, err)
		}
	})
}
