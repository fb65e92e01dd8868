//go:build unix

package smb_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// startPOSIX starts a Samba server that has the POSIX extensions, with further lines for its share, and mounts that with them. cut loses
// the connection.
func startPOSIX(t *testing.T, mode rig.Mode, lines ...string) (srv *rig.Server, share *smb.Share, cut func()) {
	t.Helper()
	lines = append(lines, "mangled names = no", "kernel oplocks = no", "kernel share modes = no", "posix locking = no")
	srv = rigtest.StartPOSIX(t, "..", rig.Config{Mode: mode, Share: lines,
		Shares: []string{"[windows]", "  path = %DIR%", "  read only = no", "  smb3 unix extensions = no"}})
	var last net.Conn
	d := smb.Dialer{Initiator: smb.NTLM{User: srv.User, Password: srv.Password}, POSIX: true, Pool: newPool(t),
		DialFunc: func(ctx context.Context, network, addr string) (nc net.Conn, err error) {
			nc, err = new(net.Dialer).DialContext(ctx, network, addr)
			last = nc
			return nc, err
		}}
	s, err := d.Dial(t.Context(), srv.Addr)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	if !s.Info().POSIX {
		t.Fatal("the server has no POSIX extensions")
	}
	share, err = s.Mount(t.Context(), srv.Share)
	must(t, err)
	return srv, share, func() { last.Close() }
}

// TestPOSIX compares what package smb says of files with the POSIX extensions with what the server's disk has.
func TestPOSIX(t *testing.T) {
	for _, mode := range modes() {
		t.Run(mode.Name(), func(t *testing.T) { testPOSIX(t, mode) })
	}
}

func testPOSIX(t *testing.T, mode rig.Mode) {
	srv, share, _ := startPOSIX(t, mode)
	must(t, share.Mkdir("dir", 0o751))
	for name, perm := range map[string]fs.FileMode{"dir/a": 0o640, "dir/A": 0o400, `dir/c:d*"<>?|`: 0o755} {
		f, err := share.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
		must(t, err)
		_, err = f.WriteAt([]byte(name), 0)
		must(t, err)
		describes(t, srv, name, must1(f.Stat())(t))
		must(t, f.Close())
	}
	must(t, share.WriteNewFile("dir/new", []byte("new"), 0o604, time.Time{}))
	must(t, share.WriteFile("dir/written", []byte("written"), 0o600))
	must(t, share.ReplaceFile("dir/replaced", []byte("replaced"), 0o444, time.Time{}))
	must(t, share.Link("dir/a", "dir/link"))
	must(t, share.Chmod("dir/new", 0o666))
	must(t, share.Chmod("dir", 0o700))
	f, err := share.OpenFile("dir/written", os.O_RDWR, 0)
	must(t, err)
	must(t, f.Chmod(0o611))
	describes(t, srv, "dir/written", must1(f.Stat())(t))
	must(t, f.Close())
	onDisk := filepath.Join(srv.Dir, "dir")
	must(t, os.Symlink("a", filepath.Join(onDisk, "symlink")))
	must(t, os.Symlink("missing", filepath.Join(onDisk, "dangling")))
	must(t, syscall.Mkfifo(filepath.Join(onDisk, "fifo"), 0o600))
	must(t, srv.Own(filepath.Join(onDisk, "fifo")))

	entries, err := share.ReadDir("dir")
	must(t, err)
	want, err := os.ReadDir(onDisk)
	must(t, err)
	if len(entries) != len(want) {
		t.Errorf("listed %v, there is %v", entries, want)
	}
	for _, e := range entries {
		fi, err := e.Info()
		must(t, err)
		describes(t, srv, "dir/"+e.Name(), fi)
		if e.Type() != fi.Mode().Type() {
			t.Errorf("%s: type %v", e.Name(), e.Type())
		}
		fi, err = share.Lstat("dir/" + e.Name())
		if err != nil {
			t.Errorf("%s: %v", e.Name(), err)
			continue
		}
		describes(t, srv, "dir/"+e.Name(), fi)
	}
	describes(t, srv, "dir/a", must1(share.Stat("dir/symlink"))(t))
	if to, err := share.Readlink("dir/symlink"); to != "a" || err != nil {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	if b, err := share.ReadFile("dir/A"); string(b) != "dir/A" || err != nil {
		t.Errorf("dir/A is %q, %v", b, err)
	}
	if _, err := share.Stat("DIR/a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a name in another case: %v", err)
	}
	// Samba keeps a link that a client makes in an extended attribute.
	must(t, share.Symlink("a", "dir/made"))
	if to, err := share.Readlink("dir/made"); to != "a" || err != nil {
		t.Errorf("the link that was made leads to %q, %v", to, err)
	}
	if fi := must1(share.Lstat("dir/made"))(t); fi.Mode().Type() != fs.ModeSymlink {
		t.Errorf("the link that was made has mode %v", fi.Mode())
	}
	then := time.Unix(1e9, 0)
	must(t, share.SymlinkTimes("a", "dir/timed", then, then.Add(time.Hour)))
	timed := must1(share.Lstat("dir/timed"))(t)
	if to, err := share.Readlink("dir/timed"); to != "a" || err != nil || !timed.ModTime().Equal(then.Add(time.Hour)) ||
		!timed.Sys().(*smb.FileStat).LastAccessTime.Equal(then) {
		t.Errorf("the link with times leads to %q, %v: %+v", to, err, timed.Sys())
	}
	refusal := errors.New("refused")
	if err := share.LchtimesIf("dir/timed", time.Time{}, then, func(fs.FileInfo) error { return refusal }); !errors.Is(err, refusal) {
		t.Errorf("times that the check refuses: %v", err)
	}
	must(t, share.LchtimesIf("dir/timed", time.Time{}, then, func(fi fs.FileInfo) error {
		if fi.Sys().(*smb.FileStat).FileID != timed.Sys().(*smb.FileStat).FileID || fi.Mode() != timed.Mode() ||
			!fi.ModTime().Equal(timed.ModTime()) {
			t.Errorf("checked %v, %+v", fi.Mode(), fi.Sys())
		}
		return nil
	}))
	if fi := must1(share.Lstat("dir/timed"))(t); !fi.ModTime().Equal(then) {
		t.Errorf("the link has time %v", fi.ModTime())
	}
	if fi := must1(share.Stat("dir/a"))(t); fi.ModTime().Equal(then) {
		t.Error("the link's target has its time")
	}
	must(t, share.Symlink("dir", "linked"))
	if to, err := share.Readlink("linked"); to != "dir" || err != nil {
		t.Errorf("the link to a directory leads to %q, %v", to, err)
	}
	must(t, share.Remove("linked"))
	must(t, share.Rename("dir/A", "dir/b"))
	if b, err := share.ReadFile("dir/b"); string(b) != "dir/A" || err != nil {
		t.Errorf("dir/b is %q, %v", b, err)
	}
	must(t, share.RemoveAll("dir"))
	if left, _ := os.ReadDir(srv.Dir); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// describes compares fi with the file of that name on the server's disk.
func describes(t *testing.T, srv *rig.Server, name string, fi fs.FileInfo) {
	t.Helper()
	want, err := os.Lstat(filepath.Join(srv.Dir, name))
	must(t, err)
	st := want.Sys().(*syscall.Stat_t)
	stat := fi.Sys().(*smb.FileStat)
	if fi.Mode() != want.Mode() && !(want.Mode()&fs.ModeSymlink != 0 && fi.Mode().Type() == want.Mode().Type()) {
		t.Errorf("%s: mode %v, want %v", name, fi.Mode(), want.Mode())
	}
	p := stat.POSIX
	if p == nil {
		t.Errorf("%s: no POSIX attributes", name)
		return
	}
	if uint64(p.Links) != uint64(st.Nlink) || stat.FileID != 0 && stat.FileID != st.Ino {
		t.Errorf("%s: %d links, id %d; want %d, %d", name, p.Links, stat.FileID, st.Nlink, st.Ino)
	}
	if gid, ok := p.GID(); !ok || gid != st.Gid {
		t.Errorf("%s: group %s, want %d", name, p.Group, st.Gid)
	}
	if !strings.HasPrefix(p.Owner, "S-1-") {
		t.Errorf("%s: owner %q", name, p.Owner)
	}
}

// must1 is must for a call that returns a value.
func must1[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return v
	}
}

// TestChown changes owners and groups, as a user whom the server permits that and as one whom it does not.
func TestChown(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	for _, mode := range modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			srv, share, _ := startPOSIX(t, mode, "force user = root")
			must(t, share.WriteFile("file", nil, 0o640))
			must(t, share.Mkdir("dir", 0o755))
			must(t, os.Symlink("file", filepath.Join(srv.Dir, "link")))
			owners := func(name string, uid, gid int, want [2]uint32) {
				t.Helper()
				must(t, share.Chown(name, uid, gid))
				fi, err := os.Stat(filepath.Join(srv.Dir, name))
				must(t, err)
				st := fi.Sys().(*syscall.Stat_t)
				if got := [2]uint32{st.Uid, st.Gid}; got != want {
					t.Errorf("%s: owners %v, want %v", name, got, want)
				}
				if name != "link" {
					describes(t, srv, name, must1(share.Stat(name))(t))
				}
			}
			owners("file", 12345, 54321, [2]uint32{12345, 54321})
			owners("file", -1, 7, [2]uint32{12345, 7})
			owners("file", 8, -1, [2]uint32{8, 7})
			owners("file", -1, -1, [2]uint32{8, 7})
			owners("dir", 1, 2, [2]uint32{1, 2})
			owners("link", 9, 10, [2]uint32{9, 10})
			f := must1(share.OpenFile("file", os.O_RDWR, 0))(t)
			must(t, f.Chown(11, 12))
			must(t, f.Chown(-1, -1))
			owners("file", -1, -1, [2]uint32{11, 12})
			must(t, os.Rename(filepath.Join(srv.Dir, "file"), filepath.Join(srv.Dir, "renamed")))
			must(t, os.Symlink("renamed", filepath.Join(srv.Dir, "file")))
			must(t, f.Chown(13, 14)) // the link leads to it
			owners("renamed", -1, -1, [2]uint32{13, 14})
			must(t, os.Remove(filepath.Join(srv.Dir, "file")))
			must(t, os.Symlink("dir", filepath.Join(srv.Dir, "file")))
			if err := f.Chown(15, 16); !errors.Is(err, smb.ErrHandleLost) {
				t.Errorf("of a file whose name another has: %v", err)
			}
			owners("dir", -1, -1, [2]uint32{1, 2})
			if err := f.Chown(-2, 0); !errors.Is(err, fs.ErrInvalid) {
				t.Error(err)
			}
			must(t, f.Close())
			if err := share.Chown("missing", -1, -1); !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
			if err := share.Chown("file", -2, 0); !errors.Is(err, fs.ErrInvalid) {
				t.Error(err)
			}
		})
	}
	t.Run("refused", func(t *testing.T) {
		_, share, _ := startPOSIX(t, rig.Plain)
		must(t, share.WriteFile("file", nil, 0o640))
		if err := share.Chown("file", 12345, -1); !errors.Is(err, fs.ErrPermission) {
			t.Error(err)
		}
	})
}

// TestPOSIXAcrossLoss uses an open file, changes its permissions and lists, after the connection was lost.
func TestPOSIXAcrossLoss(t *testing.T) {
	srv, share, cut := startPOSIX(t, rig.Signed)
	must(t, share.Mkdir("dir", 0o755))
	for _, name := range []string{"file", "dir/file"} {
		f, err := share.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o640)
		must(t, err)
		cut()
		_, err = f.WriteAt([]byte("data"), 0)
		must(t, err)
		if fi := must1(f.Stat())(t); fi.Size() != 4 {
			t.Errorf("%s: %d bytes", name, fi.Size())
		}
		cut()
		must(t, f.Chmod(0o604))
		describes(t, srv, name, must1(share.Stat(name))(t))
		if fi := must1(os.Stat(filepath.Join(srv.Dir, name)))(t); fi.Mode() != 0o604 {
			t.Errorf("%s: mode %v", name, fi.Mode())
		}
		must(t, f.Close())
		cut()
		describes(t, srv, name, must1(share.Stat(name))(t))
	}
	f, err := share.OpenFile(`dir/a:b*"?`, os.O_RDWR|os.O_CREATE, 0o640) // Samba does not open such a name again
	must(t, err)
	cut()
	if _, err := f.WriteAt([]byte("data"), 0); !errors.Is(err, smb.ErrHandleLost) {
		t.Errorf("a name that Windows does not have: %v", err)
	}
	f.Close()
	cut()
	if list, err := share.ReadDir("dir"); err != nil || len(list) != 2 {
		t.Errorf("%v, %v", list, err)
	}
}

// TestPOSIXAppend appends to a file by two handles at once, across the loss of a connection, and after the file was emptied.
func TestPOSIXAppend(t *testing.T) {
	for _, mode := range modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			srv, share, cut := startPOSIX(t, mode)
			must(t, share.WriteFile("log", []byte("0"), 0o644))
			appends := func(f *smb.File, s string) {
				t.Helper()
				n, err := f.Write([]byte(s))
				if n != len(s) || err != nil {
					t.Errorf("%q: %d, %v", s, n, err)
				}
			}
			f := must1(share.OpenFile("log", os.O_WRONLY|os.O_APPEND, 0))(t)
			g := must1(share.OpenFile("log", os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o644))(t)
			want := []byte("0123")
			appends(f, "1")
			appends(g, "2")
			appends(f, "3")
			long := random(3 << 20)
			if n, err := g.ReadFrom(bytes.NewReader(long)); n != int64(len(long)) || err != nil {
				t.Error(n, err)
			}
			want = append(want, long...)
			must(t, errors.Join(f.Close(), g.Close()))
			f = must1(share.OpenFile("log", os.O_WRONLY|os.O_APPEND, 0))(t)
			appends(f, "4")
			cut()
			must1(f.Stat())(t) // opens the file again; an append whose connection is lost is not repeated
			appends(f, "5")
			must(t, f.Close())
			if got := onDisk(t, srv, "log"); !bytes.Equal(got, append(want, "45"...)) {
				t.Errorf("the file has %d bytes, want %d", len(got), len(want)+2)
			}
			f = must1(share.OpenFile("log", os.O_WRONLY|os.O_APPEND|os.O_TRUNC, 0))(t)
			appends(f, "6")
			appends(f, "7")
			must(t, f.Close())
			if got := onDisk(t, srv, "log"); string(got) != "67" {
				t.Errorf("%q", got)
			}
		})
	}
}

// TestNotPOSIX asks servers, and a share, for POSIX extensions that they do not have.
func TestNotPOSIX(t *testing.T) {
	check := func(t *testing.T, share *smb.Share) {
		t.Helper()
		fi, err := share.Stat("file")
		must(t, err)
		if p := fi.Sys().(*smb.FileStat).POSIX; p != nil || fi.Mode() != 0o666 {
			t.Errorf("%v, %+v", fi.Mode(), p)
		}
		if err := share.Chown("file", 1, 1); !errors.Is(err, smb.ErrUnsupported) {
			t.Errorf("changing the owner: %v", err)
		}
		if _, err := share.Stat("a:b"); !errors.Is(err, smb.ErrName) {
			t.Errorf("a name with a colon: %v", err)
		}
	}
	eachKind(t, func(t *testing.T, s *script.Server) {
		f, err := scripted(t, s, smb.Dialer{POSIX: true})
		must(t, err)
		if f.Share().Session().Info().POSIX {
			t.Error("a server without the extensions has them")
		}
		check(t, f.Share())
	})
	t.Run("share", func(t *testing.T) {
		_, with, _ := startPOSIX(t, rig.Plain)
		share, err := with.Session().Mount(t.Context(), "windows")
		must(t, err)
		must(t, share.WriteFile("file", nil, 0o644))
		check(t, share)
		if list, err := share.ReadDir(""); err != nil || len(list) != 1 {
			t.Errorf("%v, %v", list, err)
		}
		must(t, share.Chmod("file", 0o444))
		if fi := must1(share.Stat("file"))(t); fi.Mode() != 0o444 {
			t.Errorf("read-only: %v", fi.Mode())
		}
	})
}

// TestSIDs has ids of Unix in SIDs.
func TestSIDs(t *testing.T) {
	for sid, want := range map[string]uint32{"S-1-5-88-1-1000": 1000, "S-1-22-1-0": 0, "S-1-22-1-4294967295": 1<<32 - 1} {
		if got, ok := (&smb.POSIXStat{Owner: sid}).UID(); got != want || !ok {
			t.Errorf("%s: %d, %v", sid, got, ok)
		}
	}
	for _, sid := range []string{"", "S-1-0-0", "S-1-22-1-", "S-1-22-1-4294967296", "S-1-22-2-1", "S-1-5-21-1-2-3-1000"} {
		if got, ok := (&smb.POSIXStat{Owner: sid}).UID(); ok {
			t.Errorf("%s: %d", sid, got)
		}
	}
}
