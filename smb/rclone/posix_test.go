//go:build unix

package rclone

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rclone/rclone/fs"
	"github.com/rclone/rclone/fs/accounting"
	rsync "github.com/rclone/rclone/fs/sync"
	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
)

// TestPOSIX copies files and symbolic links with their metadata to a server with the POSIX extensions, and back.
func TestPOSIX(t *testing.T) {
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			srv := rigtest.StartPOSIX(t, "../..", rig.Config{Mode: mode, Share: []string{"force user = root", "mangled names = no"}})
			path := configure(t, srv, map[string]string{"POSIX": "true", "LINKS": "true"})
			from, back := t.TempDir(), t.TempDir()
			then := time.Unix(1e9, 0)
			perms := map[string]os.FileMode{"a": 0o640, "dir/b": 0o755, "dir/A": 0o444, "dir/a": 0o600}
			must(t, os.Mkdir(filepath.Join(from, "dir"), 0o755))
			for name, perm := range perms {
				file := filepath.Join(from, name)
				must(t, os.WriteFile(file, []byte(name), perm))
				must(t, os.Chmod(file, perm))
				must(t, os.Chtimes(file, then, then))
				if os.Geteuid() == 0 {
					must(t, os.Chown(file, 12345, 54321))
				}
			}
			must(t, os.Symlink("a", filepath.Join(from, "link")))
			must(t, os.Symlink("../missing", filepath.Join(from, "dir", "dangling")))
			must(t, os.Symlink("dir", filepath.Join(from, "linked")))

			ctx, ci := fs.AddConfig(t.Context())
			ci.Metadata = true
			local := func(dir string) fs.Fs {
				f, err := fs.NewFs(ctx, ":local,links=true:"+dir)
				must(t, err)
				return f
			}
			there := open(t, path+"/there")
			must(t, rsync.CopyDir(ctx, there, local(from), true))
			for name, perm := range perms {
				fi, err := os.Stat(filepath.Join(srv.Dir, "there", name))
				must(t, err)
				if fi.Mode() != perm || !fi.ModTime().Equal(then) {
					t.Errorf("%s: %v, %v", name, fi.Mode(), fi.ModTime())
				}
				if st := fi.Sys().(*syscall.Stat_t); os.Geteuid() == 0 && (st.Uid != 12345 || st.Gid != 54321) {
					t.Errorf("%s: owners %d, %d", name, st.Uid, st.Gid)
				}
			}
			must(t, os.Symlink("b", filepath.Join(srv.Dir, "there", "dir", "made")))
			o, err := there.NewObject(ctx, "link"+linkSuffix)
			must(t, err)
			if want, err := os.Lstat(filepath.Join(from, "link")); err != nil || !o.ModTime(ctx).Equal(want.ModTime().Truncate(100*time.Nanosecond)) {
				t.Errorf("the link has time %v, %v, want %v", o.ModTime(ctx), err, want.ModTime())
			}

			must(t, rsync.CopyDir(ctx, local(back), there, true))
			for name, perm := range perms {
				b, err := os.ReadFile(filepath.Join(back, name))
				must(t, err)
				fi, err := os.Stat(filepath.Join(back, name))
				must(t, err)
				if string(b) != name || fi.Mode() != perm || !fi.ModTime().Equal(then) {
					t.Errorf("%s came back with %q, %v, %v", name, b, fi.Mode(), fi.ModTime())
				}
			}
			for name, want := range map[string]string{"link": "a", "dir/dangling": "../missing", "linked": "dir", "dir/made": "b"} {
				if target, err := os.Readlink(filepath.Join(back, name)); target != want || err != nil {
					t.Errorf("%s leads to %q, %v", name, target, err)
				}
			}

			if _, err := there.Move(ctx, o, "moved"+linkSuffix); err != fs.ErrorCantMove {
				t.Errorf("moving the link: %v", err)
			}
			must(t, o.Remove(ctx))
			if _, err := there.NewObject(ctx, "link"+linkSuffix); err != fs.ErrorObjectNotFound {
				t.Errorf("the link is there after its removal: %v", err)
			}
			if _, err := there.NewObject(ctx, "a"); err != nil {
				t.Errorf("what the link led to: %v", err)
			}
		})
	}
}

// windowsShare is one of the same directory without the POSIX extensions.
var windowsShare = []string{"[windows]", "  path = %DIR%", "  read only = no", "  smb3 unix extensions = no"}

// TestPOSIXCase says of a share whether its names are case-sensitive: with the extensions they are, without them as case_insensitive says.
// A sync removes a file in another case where they are, which otherwise is the one that it has uploaded.
func TestPOSIXCase(t *testing.T) {
	srv := rigtest.StartPOSIX(t, "../..", rig.Config{Share: []string{"mangled names = no"}, Shares: windowsShare})
	path := configure(t, srv, map[string]string{"POSIX": "true"})
	for remote, want := range map[string]bool{path: false, path + "/dir": false, "tarnrig:windows": true, "tarnrig:windows/dir": true, "tarnrig:": true} {
		if got := open(t, remote).Features().CaseInsensitive; got != want {
			t.Errorf("%s: case-insensitive %v", remote, got)
		}
	}
	from := t.TempDir()
	must(t, os.WriteFile(filepath.Join(from, "FILE"), []byte("new content"), 0o644))
	local, err := fs.NewFs(t.Context(), from)
	must(t, err)
	for remote, exact := range map[string]bool{path + "/posix": true, "tarnrig:windows/windows": false} {
		there := open(t, remote)
		put(t, there, "file", "old")
		must(t, rsync.Sync(t.Context(), there, local, false))
		entries, err := there.List(t.Context(), "")
		must(t, err)
		if len(entries) != 1 || entries[0].Size() != int64(len("new content")) || exact && entries[0].Remote() != "FILE" {
			t.Errorf("%s: after a sync there is %v", remote, entries)
		}
	}
}

// TestPOSIXMetadataRefused copies files with metadata that the server refuses to set, or has no place for. They are copied nevertheless.
func TestPOSIXMetadataRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			srv := rigtest.StartPOSIX(t, "../..", rig.Config{Mode: mode, Share: []string{"mangled names = no"}, Shares: windowsShare})
			path := configure(t, srv, map[string]string{"POSIX": "true"})
			from := t.TempDir()
			file := filepath.Join(from, "file")
			must(t, os.WriteFile(file, []byte("content"), 0o644))
			must(t, os.Chmod(file, 0o604))
			must(t, os.Chown(file, 12345, 54321))
			ctx, ci := fs.AddConfig(t.Context())
			ci.Metadata = true
			local, err := fs.NewFs(ctx, from)
			must(t, err)
			for _, remote := range []string{path + "/posix", "tarnrig:windows/windows"} {
				there := open(t, remote)
				if err := rsync.CopyDir(ctx, there, local, false); err != nil {
					t.Errorf("%s: %v", remote, err)
				}
				fi, err := os.Stat(filepath.Join(srv.Dir, there.Root()[strings.Index(there.Root(), "/"):], "file"))
				if err != nil {
					t.Errorf("%s: %v", remote, err)
					continue
				}
				if fi.Size() != int64(len("content")) || strings.HasSuffix(remote, "posix") && fi.Mode() != 0o604 {
					t.Errorf("%s: %d bytes, %v", remote, fi.Size(), fi.Mode())
				}
				o, err := there.NewObject(ctx, "file")
				must(t, err)
				if _, err := there.Copy(ctx, o, "copied"); err != nil {
					t.Errorf("%s: copying: %v", remote, err)
				}
			}
		})
	}
}

// TestMultiThreadMetadata copies a file in several pieces, as rclone copies long ones. It has the metadata that others have.
func TestMultiThreadMetadata(t *testing.T) {
	for _, mode := range []rig.Mode{rig.Plain, rig.Signed} {
		t.Run(mode.Name(), func(t *testing.T) {
			srv := rigtest.StartPOSIX(t, "../..", rig.Config{Mode: mode, Share: []string{"force user = root", "mangled names = no"}})
			there := open(t, configure(t, srv, map[string]string{"POSIX": "true"}))
			from := t.TempDir()
			file := filepath.Join(from, "file")
			must(t, os.WriteFile(file, []byte(strings.Repeat("content", 100_000)), 0o604))
			must(t, os.Chmod(file, 0o604))
			modified := time.Unix(1e9, 0)
			must(t, os.Chtimes(file, modified, modified))
			if os.Geteuid() == 0 {
				must(t, os.Chown(file, 12345, 54321))
			}
			ctx, ci := fs.AddConfig(t.Context())
			ci.Metadata, ci.MultiThreadCutoff, ci.MultiThreadChunkSize = true, 64<<10, 256<<10
			ci.MetadataSet = fs.Metadata{"atime": modified.Add(time.Second).Format(time.RFC3339Nano)} // reading the file changes its own
			local, err := fs.NewFs(ctx, from)
			must(t, err)
			must(t, rsync.CopyDir(ctx, there, local, false))
			fi, err := os.Stat(filepath.Join(srv.Dir, "file"))
			must(t, err)
			if fi.Size() != 700_000 || fi.Mode() != 0o604 || !fi.ModTime().Equal(modified) {
				t.Errorf("%d bytes, %v, %v", fi.Size(), fi.Mode(), fi.ModTime())
			}
			if st := fi.Sys().(*syscall.Stat_t); os.Geteuid() == 0 && (st.Uid != 12345 || st.Gid != 54321) {
				t.Errorf("owners %d, %d", st.Uid, st.Gid)
			}
			o, err := there.NewObject(ctx, "file")
			must(t, err)
			meta, err := fs.GetMetadata(ctx, o)
			must(t, err)
			if at, err := time.Parse(time.RFC3339Nano, meta["atime"]); err != nil || !at.Equal(modified.Add(time.Second)) {
				t.Errorf("accessed %v, %v", at, err)
			}
		})
	}
}

// TestPOSIXEncoding lists, reads and writes files whose names Windows does not have, with an encoding that leaves those as they are.
func TestPOSIXEncoding(t *testing.T) {
	srv := rigtest.StartPOSIX(t, "../..", rig.Config{Share: []string{"mangled names = no"}})
	there := open(t, configure(t, srv, map[string]string{"POSIX": "true", "ENCODING": "Slash,BackSlash,InvalidUtf8,Dot"}))
	made := []string{"a:b", "c.", "d ", "e\tf", `g*"?<>|h`}
	for _, name := range made {
		onServerDisk(t, srv, name, name)
		put(t, there, "copy of "+name, name)
		if b, err := os.ReadFile(filepath.Join(srv.Dir, "copy of "+name)); string(b) != name || err != nil {
			t.Errorf("%q was written as %q, %v", name, b, err)
		}
	}
	local, err := fs.NewFs(t.Context(), t.TempDir())
	must(t, err)
	must(t, rsync.CopyDir(t.Context(), local, there, false))
	for _, name := range made {
		for _, name := range []string{name, "copy of " + name} {
			if _, err := os.Stat(filepath.Join(local.Root(), name)); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestLinksAndMetadata copies files and links with metadata, with the POSIX extensions and without, twice: the second time nothing is
// transferred. Links in a directory that is moved stay links.
func TestLinksAndMetadata(t *testing.T) {
	for posix, remotes := range map[string][]string{"true": {"", "tarnrig:windows"}, "false": {""}} {
		srv := rigtest.StartPOSIX(t, "../..", rig.Config{Share: []string{"mangled names = no"}, Shares: windowsShare})
		path := configure(t, srv, map[string]string{"POSIX": posix, "LINKS": "true"})
		from := t.TempDir()
		must(t, os.Mkdir(filepath.Join(from, "dir"), 0o755))
		must(t, os.WriteFile(filepath.Join(from, "dir", "file"), []byte("content"), 0o640))
		must(t, os.Symlink("dir/file", filepath.Join(from, "link")))
		must(t, os.Symlink("dir/file", filepath.Join(from, "LINK2")))
		must(t, os.Symlink("missing", filepath.Join(from, "dir", "dangling")))
		ctx, ci := fs.AddConfig(t.Context())
		ci.Metadata = true
		local, err := fs.NewFs(ctx, ":local,links=true:"+from)
		must(t, err)
		for i, remote := range remotes {
			if remote == "" {
				remote = path
			}
			there := open(t, fmt.Sprint(remote, "/", i))
			for turn, want := range []int64{4, 0} {
				group := fmt.Sprint(t.Name(), posix, i, turn)
				ctx := accounting.WithStatsGroup(ctx, group)
				if err := rsync.Sync(ctx, there, local, true); err != nil {
					t.Errorf("posix %s, %s: %v", posix, remote, err)
				}
				if got := accounting.StatsGroup(ctx, group).GetTransfers(); got != want {
					t.Errorf("posix %s, %s: copy %d has transferred %d, want %d", posix, remote, turn+1, got, want)
				}
			}
			must(t, there.DirMove(ctx, there, "dir", "moved"))
			back, err := fs.NewFs(ctx, ":local,links=true:"+t.TempDir())
			must(t, err)
			must(t, rsync.CopyDir(ctx, back, there, true))
			for name, want := range map[string]string{"link": "dir/file", "LINK2": "dir/file", "moved/dangling": "missing"} {
				if target, err := os.Readlink(filepath.Join(back.Root(), name)); target != want || err != nil {
					t.Errorf("posix %s, %s: %s leads to %q, %v", posix, remote, name, target, err)
				}
			}
		}
	}
}
