//go:build unix

package smb

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
	"github.com/tarn-go/tarn/internal/rig"
	client "github.com/tarn-go/tarn/smb"
)

// contents are those of a file that is copied at once, of one that is copied in parts, and of both with a shorter one.
func contents() map[string]string {
	return map[string]string{"small": "new content", "large": strings.Repeat("0123456789abcdef", 20_000), "shorter": "n", "empty": ""}
}

// TestReplaceKeeps replaces files on the server and here: mode, hard links and extended attributes stay.
func TestReplaceKeeps(t *testing.T) {
	eachMode(t, func(t *testing.T, s server) {
		owner, err := os.Stat(s.Dir)
		if err != nil {
			t.Fatal(err)
		}
		for what, content := range contents() {
			dir := t.TempDir()
			write(t, dir, map[string]string{"source": content, "old": "old text", "back/old": "old text"})
			there := filepath.Join(s.Dir, what)
			write(t, s.Dir, map[string]string{what: "old text"})
			if err := chownLike(there, owner); err != nil {
				t.Fatal(err)
			}
			here := filepath.Join(dir, "back", "old")
			for _, name := range []string{there, here} {
				if err := errors.Join(os.Chmod(name, 0o600), os.Link(name, name+"-link")); err != nil {
					t.Fatal(err)
				}
				if err := unix.Setxattr(name, "user.note", []byte("kept"), 0); err != nil && !errors.Is(err, unix.ENOTSUP) {
					t.Fatal(err)
				}
			}
			must(t, "put", filepath.Join(dir, "source"), s.url(what))
			must(t, "get", s.url(what), here)
			for _, name := range []string{there, here} {
				info, err := os.Stat(name)
				if err != nil {
					t.Fatal(err)
				}
				if st := info.Sys().(*syscall.Stat_t); info.Mode() != 0o600 || st.Nlink != 2 {
					t.Errorf("%s %s: mode %v, %d links", what, name, info.Mode(), st.Nlink)
				}
				note := make([]byte, 9)
				if n, err := unix.Getxattr(name, "user.note", note); string(note[:max(n, 0)]) != "kept" && !errors.Is(err, unix.ENOTSUP) {
					t.Errorf("%s %s: the attribute is %q, %v", what, name, note, err)
				}
				if b, err := os.ReadFile(name); err != nil || string(b) != content {
					t.Errorf("%s %s: %d bytes, %v", what, name, len(b), err)
				}
			}
			if left := append(parts(t, s.Dir), parts(t, filepath.Dir(here))...); len(left) > 0 {
				t.Errorf("%s: left behind: %v", what, left)
			}
			if r := must(t, "put", filepath.Join(dir, "source"), s.url(what)); !strings.Contains(r.err, "1 already there") {
				t.Errorf("%s: copied again: %q", what, r.err)
			}
		}
	})
}

// TestGetThroughLinks copies to symbolic links and a pipe: they stay what they are.
func TestGetThroughLinks(t *testing.T) {
	s := startServer(t, rig.Config{})
	dir := t.TempDir()
	for what, content := range contents() {
		write(t, dir, map[string]string{"source": content, "real": "old"})
		must(t, "put", filepath.Join(dir, "source"), s.url(what))
		link := filepath.Join(dir, "link")
		os.Remove(link)
		if err := os.Symlink("real", link); err != nil {
			t.Fatal(err)
		}
		must(t, "get", s.url(what), link)
		if target, err := os.Readlink(link); target != "real" {
			t.Errorf("%s: %v", what, err)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "real")); err != nil || string(b) != content {
			t.Errorf("%s: %d bytes, %v", what, len(b), err)
		}
		pipe := filepath.Join(dir, "pipe-"+what)
		if err := unix.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		got := make(chan string)
		go func() {
			b, err := os.ReadFile(pipe)
			if err != nil {
				t.Error(err)
			}
			got <- string(b)
		}()
		must(t, "get", s.url(what), pipe)
		if <-got != content {
			t.Errorf("%s: another content from the pipe", what)
		}
	}
	if err := os.Symlink("nothing", filepath.Join(dir, "dangling")); err != nil {
		t.Fatal(err)
	}
	if r := run(t.Context(), "get", s.url("small"), filepath.Join(dir, "dangling")); r.status != cli.Usage {
		t.Errorf("%+v", r)
	}
	// In a directory that is copied into, a link may not lead out of it, and a pipe is not opened.
	tree := filepath.Join(dir, "tree")
	write(t, tree, map[string]string{"large": "old"})
	for _, name := range []string{"small", "shorter"} {
		if err := os.Symlink(filepath.Join(dir, "real"), filepath.Join(tree, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(tree, "empty"), 0o600); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(filepath.Join(dir, "real"))
	if r := run(t.Context(), "get", "-r", s.url("*"), tree); r.status != cli.Failed || strings.Count(r.err, "tarn smb get: ") != 3 {
		t.Errorf("%+v", r)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "real")); !bytes.Equal(b, before) {
		t.Error("a link out of the directory was followed")
	}
	if b, _ := os.ReadFile(filepath.Join(tree, "large")); string(b) != contents()["large"] {
		t.Error("the file among them was not copied")
	}
}

// TestSourcesOfOneName copies two files that would be one in the target: nothing is copied.
func TestSourcesOfOneName(t *testing.T) {
	s := startServer(t, rig.Config{})
	dir := t.TempDir()
	write(t, dir, map[string]string{"x/r.txt": "X", "y/r.txt": "Y", "y/R.TXT": "Z", "in/keep": "", "other": "o"})
	must(t, "mkdir", s.url("a"), s.url("b"), s.url("c"))
	must(t, "put", filepath.Join(dir, "x/r.txt"), s.url("a"))
	must(t, "put", filepath.Join(dir, "y/r.txt"), s.url("b"))
	for _, args := range [][]string{
		{"get", s.url("a/r.txt"), s.url("b/r.txt"), filepath.Join(dir, "in")},
		{"put", filepath.Join(dir, "other"), filepath.Join(dir, "x/r.txt"), filepath.Join(dir, "y/r.txt"), s.url("c")},
		{"put", filepath.Join(dir, "x/r.txt"), filepath.Join(dir, "y/R.TXT"), s.url("c")},
	} {
		if r := run(t.Context(), args...); r.status != cli.Usage || !strings.Contains(r.err, "would be one file") || !strings.Contains(r.err, "x/r.txt") && args[0] == "put" {
			t.Errorf("%v: %+v", args, r)
		}
	}
	for _, name := range []string{filepath.Join(dir, "in"), filepath.Join(s.Dir, "c")} {
		if list, err := os.ReadDir(name); err != nil || len(list) > 1 {
			t.Errorf("%s: %v, %v", name, list, err)
		}
	}
}

// TestTargets: a copy lands where cp and scp have it.
func TestTargets(t *testing.T) {
	s := startServer(t, rig.Config{})
	dir := t.TempDir()
	write(t, dir, map[string]string{"album/one": "1", "file": "x", "here/x": ""})
	album, file := filepath.Join(dir, "album"), filepath.Join(dir, "file")
	must(t, "put", "-r", album, s.url(""))
	must(t, "put", "-r", album, s.url("new"))
	must(t, "put", "-r", album, s.url("new"))
	must(t, "put", "-r", "-T", album, s.url("new"))
	must(t, "put", file, s.url("new/"))
	t.Chdir(filepath.Join(dir, "here"))
	must(t, "get", "-r", s.url("album"))
	must(t, "get", "-r", s.url("album"), "other")
	must(t, "get", "-r", s.url("album"), "other/")
	for _, name := range []string{
		filepath.Join(s.Dir, "album/one"), filepath.Join(s.Dir, "new/one"), filepath.Join(s.Dir, "new/album/one"), filepath.Join(s.Dir, "new/file"),
		"album/one", "other/one", "other/album/one",
	} {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
	for _, args := range [][]string{
		{"put", file, s.url("none/")}, {"put", "-r", album, s.url("none/")}, {"put", file, s.url("new/one/")}, {"put", "-T", file, s.url("new")},
		{"get", s.url("new/one"), "none/"}, {"get", "-r", s.url("album"), "none/"}, {"put", "-r", "-T", album, file, s.url("new")},
	} {
		if r := run(t.Context(), args...); r.status != cli.Usage {
			t.Errorf("%v: %+v", args, r)
		}
	}
	for _, name := range []string{filepath.Join(s.Dir, "none"), "none"} {
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDirectoryInItself lists and copies a tree with a link upwards, which the server shows as a directory.
func TestDirectoryInItself(t *testing.T) {
	eachMode(t, func(t *testing.T, s server) {
		write(t, s.Dir, map[string]string{"a/b/f": "x", "a/c/g": "y"})
		if err := os.Symlink("../..", filepath.Join(s.Dir, "a/b/up")); err != nil {
			t.Fatal(err)
		}
		for _, start := range []string{"", "a"} {
			dir := t.TempDir()
			r := run(t.Context(), "get", "-r", "-T", s.url(start), dir)
			if r.status != cli.Failed || !strings.Contains(r.err, "contains itself") || !strings.Contains(r.err, "/up") {
				t.Errorf("get: %+v", r)
			}
			files := 0
			filepath.WalkDir(dir, func(_ string, e fs.DirEntry, _ error) error {
				if e.Type().IsRegular() {
					files++
				}
				return nil
			})
			if files < 2 || files > 4 {
				t.Errorf("%q: %d files", start, files)
			}
			r = run(t.Context(), "ls", "-r", s.url(start))
			if n := strings.Count(r.out, "f\n"); r.status != cli.Failed || !strings.Contains(r.err, "contains itself") || n < 1 || n > 2 || !strings.Contains(r.out, "g\n") {
				t.Errorf("ls: %+v", r)
			}
		}
	})
}

// refusingTree refuses to rename so many times, as a server does with a file that another program has open.
type refusingTree struct {
	tree
	times   int
	renamed bool // the next refusal is one of a rename that was done
	err     error
}

func (r *refusingTree) RenameNew(from, to string) error {
	if r.times--; r.times >= 0 {
		if r.renamed {
			r.tree.RenameNew(from, to)
		}
		return r.err
	}
	return r.tree.RenameNew(from, to)
}

// TestRenameRefused refuses the last step of a copy, for a moment or for good, or loses the answer to it: the copy that is complete is
// never made again.
func TestRenameRefused(t *testing.T) {
	inUse := &client.ResponseError{Status: 0xc0000043} // STATUS_SHARING_VIOLATION
	for _, c := range []struct {
		name    string
		target  refusingTree
		waits   int
		fails   bool
		content int // of the source, bytes
	}{
		{"for a moment", refusingTree{times: 2, err: inUse}, 3, false, 200_000},
		{"for good", refusingTree{times: 9, err: inUse}, 3, true, 200_000},
		{"not permitted", refusingTree{times: 9, err: fs.ErrPermission}, 3, true, 200_000},
		{"answer lost", refusingTree{times: 1, renamed: true, err: client.ErrConnLost}, 3, false, 200_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("XDG_CACHE_HOME", t.TempDir())
			src, dst := t.TempDir(), t.TempDir()
			content := strings.Repeat("x", c.content)
			write(t, src, map[string]string{"f": content})
			var errs bytes.Buffer
			attempt := func(target *refusingTree) (int64, error) {
				a := newApp("put", options{jobs: 1, quiet: true}, cli.Streams{Out: io.Discard, Err: &errs})
				a.waits = make([]time.Duration, c.waits)
				from, to := open(t, src), open(t, dst)
				target.tree = to
				var p plan
				if err := a.add(t.Context(), &p, route{from, target, "f", "f"}); err != nil {
					t.Fatal(err)
				}
				size := p.jobs[0].partSize
				return size, a.carryOut(t.Context(), &p)
			}
			_, err := attempt(&c.target)
			if (err != nil) != c.fails {
				t.Fatalf("%v: %s", err, errs.String())
			}
			if c.fails {
				if left := parts(t, dst); len(left) != 1 || !strings.Contains(errs.String(), left[0]) {
					t.Errorf("left %v: %s", left, errs.String())
				}
				if size, err := attempt(&refusingTree{}); err != nil || size != int64(c.content) {
					t.Errorf("again: %v, from %d on", err, size)
				}
			}
			if b, err := os.ReadFile(filepath.Join(dst, "f")); err != nil || string(b) != content {
				t.Errorf("%d bytes, %v", len(b), err)
			}
			if left := parts(t, dst); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

func open(t *testing.T, dir string) tree {
	t.Helper()
	p, err := openLocal(dir, ".")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p.tree
}

// TestTwoRuns has a second run of a command take over the unfinished file of the first: the first says so.
func TestTwoRuns(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for _, finished := range []bool{false, true} {
		src, dst := t.TempDir(), t.TempDir()
		content := strings.Repeat("x", 200_000)
		write(t, src, map[string]string{"f": content})
		job := func() (*app, *job) {
			a := newApp("put", options{jobs: 1, quiet: true}, cli.Streams{Out: io.Discard, Err: io.Discard})
			a.waits = nil
			var p plan
			if err := a.add(t.Context(), &p, route{open(t, src), open(t, dst), "f", "f"}); err != nil {
				t.Fatal(err)
			}
			return a, p.jobs[0]
		}
		a, first := job()
		taken := false
		err := a.copyFile(t.Context(), first, func(int64) {
			if taken || len(parts(t, dst)) == 0 {
				return
			}
			taken = true
			b, second := job()
			if err := second.takePart(second.beside(second.part)); err != nil || !second.partThere {
				t.Errorf("not taken: %v", err)
			}
			if finished {
				if err := b.copyFile(t.Context(), second, func(int64) {}); err != nil {
					t.Error(err)
				}
			}
		})
		if !taken || !errors.Is(err, errTaken) {
			t.Errorf("finished %v: %v", finished, err)
		}
		if !finished {
			if len(parts(t, dst)) != 1 {
				t.Errorf("parts: %v", parts(t, dst))
			}
			b, third := job()
			if err := b.copyFile(t.Context(), third, func(int64) {}); err != nil {
				t.Error(err)
			}
		}
		if b, err := os.ReadFile(filepath.Join(dst, "f")); err != nil || string(b) != content {
			t.Errorf("%d bytes, %v", len(b), err)
		}
	}
}

// TestNoCacheDirectory interrupts a copy where the key of unfinished files' names cannot be kept: none is left.
func TestNoCacheDirectory(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	s := startServer(t, rig.Config{})
	name, _ := bigFile(t)
	interrupt(t, name, s.url("target"), 32<<20)
	must(t, "put", name, s.url("source"))
	dir := t.TempDir()
	interrupt(t, s.url("source"), filepath.Join(dir, "target"), 32<<20)
	if left := append(parts(t, dir), parts(t, s.Dir)...); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestNoDotfiles copies to a share that has no names with a dot in front.
func TestNoDotfiles(t *testing.T) {
	s := startServer(t, rig.Config{Share: []string{"veto files = /.*/"}})
	src := filepath.Join(t.TempDir(), "src")
	write(t, src, contents())
	for range 2 {
		must(t, "put", "-r", "-T", "-anew", src, s.url("there"))
		sameTree(t, src, filepath.Join(s.Dir, "there"))
	}
}
