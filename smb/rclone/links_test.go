//go:build unix

package rclone

import (
	"bytes"
	"context"
	"errors"
	"io"
	iofs "io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rclone/rclone/fs"
	"github.com/rclone/rclone/fs/object"
	rsync "github.com/rclone/rclone/fs/sync"
	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
)

// onServerDisk makes a file in the directory of a share, for the user that the server serves.
func onServerDisk(t *testing.T, srv *rig.Server, name, content string) {
	t.Helper()
	file := filepath.Join(srv.Dir, name)
	must(t, os.WriteFile(file, []byte(content), 0o644))
	if os.Geteuid() == 0 {
		must(t, srv.Own(file))
	}
}

// TestFilesNamedAsLinks has files whose names end as those do that links are shown with. They are no links, and no other file is meant by them.
func TestFilesNamedAsLinks(t *testing.T) {
	f, srv, dir := newRemote(t, map[string]string{"LINKS": "true"})
	ctx := t.Context()
	for _, name := range []string{"x", "x.rclonelink", ".rclonelink"} {
		onServerDisk(t, srv, "dir/"+name, name)
	}
	then := time.Unix(1e9, 0)
	must(t, os.Chtimes(filepath.Join(dir, "x"), then, then))
	entries, err := f.List(ctx, "")
	must(t, err)
	var listed []string
	for _, e := range entries {
		listed = append(listed, e.Remote())
		o, ok := e.(*Object)
		if !ok || e.Remote() == "x" {
			continue
		}
		must(t, o.SetModTime(ctx, then.Add(time.Hour)))
		must(t, o.Remove(ctx))
	}
	if got := strings.Join(listed, " "); got != ".rclonelink x" {
		t.Errorf("listed %s", got)
	}
	if got := names(t, dir); got != "x x.rclonelink" {
		t.Errorf("left %s", got)
	}
	if fi, err := os.Stat(filepath.Join(dir, "x")); err != nil || !fi.ModTime().Equal(then) {
		t.Errorf("x: %v, %v", fi, err)
	}
	if o, err := f.NewObject(ctx, "x.rclonelink"); err != fs.ErrorObjectNotFound {
		t.Errorf("the file with a link's name: %v, %v", o, err)
	}
	if o, err := f.NewObject(ctx, "x"); err != nil || o.Size() != 1 {
		t.Errorf("x: %v, %v", o, err)
	}
	for _, name := range []string{".rclonelink", "..rclonelink", "...rclonelink"} { // no link has the name "." or ".."
		put(t, f, "sub/"+name, "a file")
	}
	if got := names(t, filepath.Join(dir, "sub")); got != "...rclonelink ..rclonelink .rclonelink" {
		t.Errorf("names of no links made %s", got)
	}
}

// TestUpdateLink makes links to other targets, to the same one, and to some that cannot be: then the link stays as it is.
func TestUpdateLink(t *testing.T) {
	for _, mode := range []rig.Mode{rig.Plain, rig.Signed} {
		t.Run(mode.Name(), func(t *testing.T) {
			srv := rigtest.StartPOSIX(t, "../..", rig.Config{Mode: mode, Share: []string{"mangled names = no"}})
			f := open(t, configure(t, srv, map[string]string{"POSIX": "true", "LINKS": "true"}))
			ctx, then := t.Context(), time.Unix(1e9, 0)
			content := func(o fs.Object) string {
				r, err := o.Open(ctx)
				must(t, err)
				defer r.Close()
				b, err := io.ReadAll(r)
				must(t, err)
				return string(b)
			}
			is := func(name, target string, at time.Time) {
				t.Helper()
				o, err := f.NewObject(ctx, name)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				if got := content(o); got != target || !o.ModTime(ctx).Equal(at) {
					t.Errorf("%s leads to %q, of %v, want %q, %v", name, got, o.ModTime(ctx), target, at)
				}
			}
			onDisk := filepath.Join(srv.Dir, "disk")
			must(t, os.Symlink("old", onDisk))
			if os.Geteuid() == 0 {
				must(t, os.Lchown(onDisk, 0, 0))
			}
			for _, target := range []string{"", "a\x00b", "\xff", "/absolute", `\absolute`, strings.Repeat("x", 20_000), strings.Repeat("x", maxLinkTarget+1)} {
				o := put(t, f, "link.rclonelink", "old")
				src := object.NewStaticObjectInfo("link.rclonelink", then.Add(time.Hour), int64(len(target)), true, nil, nil)
				if err := o.Update(ctx, strings.NewReader(target), src); err == nil {
					t.Errorf("a link to %.10q was made", target)
				}
				is("link.rclonelink", "old", then)
			}
			put(t, f, "link.rclonelink", "new")
			is("link.rclonelink", "new", then)
			// A link that was made on the server's disk is another file there than one that a client makes.
			put(t, f, "disk.rclonelink", "old")
			is("disk.rclonelink", "old", then)
			if to, err := os.Readlink(onDisk); to != "old" || err != nil {
				t.Errorf("an update with the same target made another link: %q, %v", to, err)
			}
			put(t, f, "disk.rclonelink", "new")
			is("disk.rclonelink", "new", then)
			must(t, os.Symlink("/absolute", filepath.Join(srv.Dir, "other")))
			if os.Geteuid() == 0 {
				must(t, os.Lchown(filepath.Join(srv.Dir, "other"), 0, 0))
			}
			put(t, f, "other.rclonelink", "/absolute")
			is("other.rclonelink", "/absolute", then)
			if _, err := f.Put(ctx, strings.NewReader("/absolute"), described("none.rclonelink", 9)); !errors.Is(err, errAbsolute) {
				t.Errorf("a new link to an absolute path: %v", err)
			}
		})
	}
}

// telling is a connection that calls removing with the first request that removes a file.
type telling struct {
	net.Conn
	removing func()
}

func (c telling) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte{33, 0, 1, 13}) { // SET_INFO, FileDispositionInformation (MS-SMB2 2.2.39)
		c.removing()
	}
	return c.Conn.Write(p)
}

// TestUpdateLinkCancelled ends the context of an update while the link that it replaces is removed. It is made again.
func TestUpdateLinkCancelled(t *testing.T) {
	srv := rigtest.StartPOSIX(t, "../..", rig.Config{Share: []string{"mangled names = no"}})
	f := open(t, configure(t, srv, map[string]string{"POSIX": "true", "LINKS": "true"}))
	o := put(t, f, "link.rclonelink", "old")
	must(t, f.Shutdown(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f.conns.dialer.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
		return telling{nc, cancel}, err
	}
	if err := o.Update(ctx, strings.NewReader("new"), described("link.rclonelink", 3)); !errors.Is(err, context.Canceled) {
		t.Errorf("the update: %v", err)
	}
	again, err := f.NewObject(t.Context(), "link.rclonelink")
	if err != nil {
		t.Fatal(err)
	}
	if got := again.(*Object).target; got != "old" || !again.ModTime(t.Context()).Equal(time.Unix(1e9, 0)) {
		t.Errorf("the link leads to %q, of %v", got, again.ModTime(t.Context()))
	}
}

// TestLinksBecomeFiles syncs files in place of symbolic links of the same name. rclone removes the links after it has uploaded the files.
func TestLinksBecomeFiles(t *testing.T) {
	for _, posix := range []string{"true", "false"} {
		srv := rigtest.StartPOSIX(t, "../..", rig.Config{Share: []string{"mangled names = no"}})
		f := open(t, configure(t, srv, map[string]string{"POSIX": posix, "LINKS": "true"}))
		put(t, f, "file", "old content")
		for _, target := range []string{"file", "missing"} {
			put(t, f, "to "+target+".rclonelink", target)
		}
		from := t.TempDir()
		for _, name := range []string{"to file", "to missing", "file"} {
			must(t, os.WriteFile(filepath.Join(from, name), []byte("new "+name), 0o644))
		}
		local, err := fs.NewFs(t.Context(), ":local,links=true:"+from)
		must(t, err)
		must(t, rsync.Sync(t.Context(), f, local, false))
		if got := names(t, srv.Dir); got != "file to file to missing" {
			t.Errorf("posix %s: there is %s", posix, got)
		}
		for _, name := range []string{"to file", "to missing", "file"} {
			if b, err := os.ReadFile(filepath.Join(srv.Dir, name)); string(b) != "new "+name || err != nil {
				t.Errorf("posix %s: %s has %q, %v", posix, name, b, err)
			}
		}
	}
}

// TestWriteToLink writes to a name that a symbolic link has, without making a new file first: what it leads to stays as it is.
func TestWriteToLink(t *testing.T) {
	for _, posix := range []string{"true", "false"} {
		srv := rigtest.StartPOSIX(t, "../..", rig.Config{Share: []string{"mangled names = no"}})
		f := open(t, configure(t, srv, map[string]string{"POSIX": posix, "LINKS": "true"}))
		put(t, f, "file", "content")
		o := put(t, f, "other", "other content")
		for _, target := range []string{"file", "missing"} {
			link := "to " + target
			put(t, f, link+".rclonelink", target)
			for what, write := range map[string]func() error{
				"put": func() error {
					_, err := f.Put(t.Context(), strings.NewReader("new"), described(link, 3))
					return err
				},
				"copy": func() error { _, err := f.Copy(t.Context(), o, link); return err },
				"writer": func() error {
					_, w, err := f.OpenChunkWriter(t.Context(), link, described(link, 3))
					if err == nil {
						w.Close(t.Context())
					}
					return err
				},
			} {
				if err := write(); !errors.Is(err, iofs.ErrExist) {
					t.Errorf("posix %s: %s to %s: %v", posix, what, link, err)
				}
			}
			if o, err := f.NewObject(t.Context(), link+".rclonelink"); err != nil || o.Size() != int64(len(target)) {
				t.Errorf("posix %s: the link: %v, %v", posix, o, err)
			}
		}
		if o, err := f.NewObject(t.Context(), "file"); err != nil || o.Size() != 7 {
			t.Errorf("posix %s: the link's target: %v, %v", posix, o, err)
		}
		if _, err := f.NewObject(t.Context(), "missing"); err != fs.ErrorObjectNotFound {
			t.Errorf("posix %s: the missing target: %v", posix, err)
		}
	}
}

// TestMoveLink moves links that are followed, which Samba makes empty files of when they are renamed.
func TestMoveLink(t *testing.T) {
	srv := rigtest.StartPOSIX(t, "../..", rig.Config{Share: []string{"mangled names = no"}})
	f := open(t, configure(t, srv, map[string]string{"POSIX": "true", "COPY_LINKS": "true"}))
	put(t, f, "file", "content")
	put(t, f, "dir/file", "content")
	for name, target := range map[string]string{"link": "file", "linked": "dir"} {
		must(t, os.Symlink(target, filepath.Join(srv.Dir, name)))
	}
	o, err := f.NewObject(t.Context(), "link")
	must(t, err)
	if _, err := f.Move(t.Context(), o, "moved"); err != fs.ErrorCantMove {
		t.Errorf("moving a link: %v", err)
	}
	if err := f.DirMove(t.Context(), f, "linked", "another"); err != fs.ErrorCantDirMove {
		t.Errorf("moving a link to a directory: %v", err)
	}
	if got := names(t, srv.Dir); got != "dir file link linked" {
		t.Errorf("there is %s", got)
	}
	for name, target := range map[string]string{"link": "file", "linked": "dir"} {
		if to, err := os.Readlink(filepath.Join(srv.Dir, name)); to != target || err != nil {
			t.Errorf("%s leads to %q, %v", name, to, err)
		}
	}
	if o, err = f.NewObject(t.Context(), "file"); err != nil {
		t.Error(err)
	} else if _, err := f.Move(t.Context(), o, "renamed"); err != nil {
		t.Errorf("moving a file: %v", err)
	}
}
