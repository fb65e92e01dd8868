//go:build unix

package smb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
	"github.com/tarn-go/tarn/internal/rig"
)

// copyWhile copies source to target and calls meddle when the first bytes have been counted.
func copyWhile(t *testing.T, source, target string, meddle func()) (said string, err error) {
	t.Helper()
	var errs bytes.Buffer
	a := newApp("test", options{jobs: 1, quiet: true}, cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: &errs})
	defer a.close()
	to, _, err := a.target(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	defer to.close()
	from, err := a.source(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	defer from.close()
	var p plan
	if err := a.add(t.Context(), &p, route{from.tree, to.tree, from.name, to.name}); err != nil {
		t.Fatal(err)
	}
	once := false
	err = a.each(t.Context(), &p, "copy", func(ctx context.Context, j *job, count func(int64)) error {
		return a.copyFile(ctx, j, func(n int64) {
			if count(n); !once && n > 0 {
				once = true
				meddle()
			}
		})
	})
	return errs.String(), err
}

// overwrite changes a file in place, its length and its first bytes' places kept.
func overwrite(t *testing.T, name string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	for _, off := range []int64{0, info.Size() - 8} {
		if _, err := f.WriteAt([]byte("MEDDLED!"), off); err != nil {
			t.Fatal(err)
		}
	}
}

// The copy of a source that is rewritten in place meanwhile fails and leaves no file with a mix of old and
// new bytes. It succeeds when it is repeated.
func TestSourceChangesWhileCopied(t *testing.T) {
	for _, mode := range rig.Modes() {
		t.Run("put "+mode.Name(), func(t *testing.T) {
			s := startServer(t, rig.Config{Mode: mode})
			name, _ := bigFile(t)
			said, err := copyWhile(t, name, s.url("target"), func() { overwrite(t, name) })
			if !errors.Is(err, errReported) || !strings.Contains(said, "changed while it was being copied") {
				t.Errorf("%v: %s", err, said)
			}
			if _, err := os.Stat(filepath.Join(s.Dir, "target")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the target: %v", err)
			}
			if left := parts(t, s.Dir); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
			must(t, "put", "-verify", name, s.url("target"))
		})
		t.Run("get "+mode.Name(), func(t *testing.T) {
			s := startServer(t, rig.Config{Mode: mode})
			name, _ := bigFile(t)
			must(t, "put", name, s.url("source"))
			target := filepath.Join(t.TempDir(), "target")
			said, err := copyWhile(t, s.url("source"), target, func() { overwrite(t, filepath.Join(s.Dir, "source")) })
			if !errors.Is(err, errReported) || !strings.Contains(said, "changed while it was being copied") {
				t.Errorf("%v: %s", err, said)
			}
			if _, err := os.Stat(target); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the target: %v", err)
			}
			if left := parts(t, filepath.Dir(target)); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
			must(t, "get", "-verify", s.url("source"), target)
		})
	}
}

// A file that is rewritten within two seconds with the same size is copied again, to and from the server. An
// unchanged file is not.
func TestRewrittenAtOnce(t *testing.T) { eachMode(t, testRewrittenAtOnce) }

func testRewrittenAtOnce(t *testing.T, s server) {
	dir := t.TempDir()
	name, back := filepath.Join(dir, "file"), filepath.Join(dir, "back")
	when := time.Now().Truncate(time.Second)
	for i, text := range []string{"first", "other", "third"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		later := when.Add(time.Duration(i) * 100 * time.Nanosecond)
		if err := os.Chtimes(name, later, later); err != nil {
			t.Fatal(err)
		}
		must(t, "put", name, s.url("file"))
		must(t, "get", s.url("file"), back)
		for _, copied := range []string{filepath.Join(s.Dir, "file"), back} {
			if b, err := os.ReadFile(copied); err != nil || string(b) != text {
				t.Errorf("%s has %q, not %q, %v", copied, b, text, err)
			}
		}
		if r := must(t, "put", name, s.url("file")); !strings.Contains(r.err, "1 already there") || !strings.Contains(r.err, "0 B in") {
			t.Errorf("copied again: %s", r.err)
		}
	}
	if err := os.WriteFile(name, []byte("drift"), 0o644); err != nil {
		t.Fatal(err)
	}
	later := when.Add(time.Second)
	if err := os.Chtimes(name, later, later); err != nil {
		t.Fatal(err)
	}
	if r := must(t, "put", "-time-window", "2s", name, s.url("file")); !strings.Contains(r.err, "1 already there") {
		t.Errorf("-time-window: %s", r.err)
	}
}

// A file that is left out makes the exit status 1.
func TestLeftOut(t *testing.T) { eachMode(t, testLeftOut) }

func testLeftOut(t *testing.T, s server) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	r := run(t.Context(), "put", "-r", dir, s.url("there"))
	if r.status != cli.Failed || !strings.Contains(r.err, "left out, not a file") || !strings.Contains(r.err, "copied 1 of 1") {
		t.Errorf("%+v", r)
	}
}

// A file on the server's disk with a name that SMB does not have is left out with a message, and the others are copied and listed.
func TestNameOnDisk(t *testing.T) {
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			s := startServer(t, rig.Config{Mode: mode, Share: []string{"mangled names = no"}})
			for _, name := range []string{"one", "two", `back\slash`} {
				if err := os.WriteFile(filepath.Join(s.Dir, name), []byte("x"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if r := run(t.Context(), "ls", s.url("")); r.status != cli.Failed || !strings.Contains(r.out, "one") || !strings.Contains(r.out, "two") {
				t.Errorf("%+v", r)
			}
			dir := t.TempDir()
			r := run(t.Context(), "get", "-r", "-T", s.url(""), dir)
			if r.status != cli.Failed || !strings.Contains(r.err, "left out") || !strings.Contains(r.err, "copied 2 of 2") {
				t.Errorf("%+v", r)
			}
		})
	}
}

// A flag behind the arguments is honoured, and an unknown flag there is an error, so
// that nothing is copied unencrypted into a file called -encrypt.
func TestFlagsAnywhere(t *testing.T) {
	s := startServer(t, rig.Config{})
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile(filepath.Join(s.Dir, "file"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	must(t, "get", s.url("file"), "-encrypt")
	if r := run(t.Context(), "get", s.url("file"), "-encrpyt"); r.status != cli.Usage || !strings.Contains(r.err, "--encrpyt") {
		t.Errorf("%+v", r)
	}
	must(t, "get", s.url("file"), "--", "-encrypt")
	for name, want := range map[string]bool{"file": true, "-encrypt": true, "-encrpyt": false} {
		if _, err := os.Stat(name); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	plain := startServer(t, rig.Config{Global: []string{"server smb encrypt = off"}})
	if err := os.WriteFile(filepath.Join(plain.Dir, "file"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := run(t.Context(), "get", plain.url("file"), "-encrypt"); r.status != cli.Failed {
		t.Errorf("a server that does not encrypt: %+v", r)
	}
}

// A copy to a name that the server refuses leaves no part on the server.
func TestNoPartOfRefusedName(t *testing.T) { eachMode(t, testNoPartOfRefusedName) }

func testNoPartOfRefusedName(t *testing.T, s server) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "bad:name"), bytes.Repeat([]byte("x"), 3<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := run(t.Context(), "put", filepath.Join(dir, "bad:name"), s.url("")); r.status != cli.Failed || !strings.Contains(r.err, `one of \ : * ?`) {
		t.Errorf("%+v", r)
	}
	if left := parts(t, s.Dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Another user's files in the target's directory do not decide what a copy continues with.
func TestPartNamesAreSecret(t *testing.T) {
	a, b := newKey(), newKey()
	j := &job{route: route{from: &local{name: "/x"}, fromName: "f", toName: "d/f"}, size: 5, modified: time.Unix(1, 2)}
	name, state, file := partName(a, j)
	if _, other, _ := partName(b, j); other == state {
		t.Error("two keys, one name")
	}
	if again, same, _ := partName(a, j); again == name || same != state || !strings.HasPrefix(name, state) || !strings.HasPrefix(state, file) {
		t.Errorf("%s, %s, %s, %s", name, again, state, file)
	}
	j.size++
	if _, other, f := partName(a, j); other == state || f != file {
		t.Errorf("another state has the name %s, prefix %s", other, f)
	}
}

func TestPartKeyIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	first, err := keptKey(dir)
	if err != nil || len(first) != keyBytes {
		t.Fatal(first, err)
	}
	if again, err := keptKey(dir); err != nil || !bytes.Equal(first, again) {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("%v", left)
	}
	if err := os.Chmod(filepath.Join(dir, "part-key"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := keptKey(dir); err == nil {
		t.Error("a key that others can read was accepted")
	}
}

// A part that is not a regular file is not written to.
func TestPartIsNoLink(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("whole"), 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := openLocal(dir, ".")
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if err := os.Symlink("victim", filepath.Join(dir, "part")); err != nil {
		t.Fatal(err)
	}
	j := &job{route: route{to: p.tree}}
	if out, err := j.openPart("part"); err == nil {
		out.Close()
		t.Error("opened a symbolic link")
	}
	if b, _ := os.ReadFile(victim); string(b) != "whole" {
		t.Errorf("%q", b)
	}
}

func TestRefusedDial(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	r := run(t.Context(), "ls", "smb://"+l.Addr().String()+"/x")
	if r.status != cli.Failed || strings.Contains(r.err, "lost") || !strings.Contains(r.err, "cannot connect to "+l.Addr().String()) {
		t.Errorf("%+v", r)
	}
}

// A server that does not know the user is refused, unless -guest allows it to let the user in.
func TestGuest(t *testing.T) {
	s := startServer(t, rig.Config{
		Global: []string{"map to guest = bad user", "guest account = nobody"},
		Shares: []string{"[public]\n  path = %DIR%\n  guest ok = yes"},
	})
	write(t, s.Dir, map[string]string{"file": "for all"})
	local := filepath.Join(t.TempDir(), "file")
	url := "smb://stranger@" + s.Addr + "/public"
	for _, flags := range [][]string{nil, {"-sign"}, {"-encrypt"}, {"-guest", "-sign"}, {"-guest", "-encrypt"}} {
		why := "whose session cannot be protected"
		if flags == nil {
			why = "without checking the password (-guest allows that)"
		}
		for _, args := range [][]string{{"ls", url}, {"get", url + "/file", local}} {
			if r := run(t.Context(), append(args, flags...)...); r.status != cli.Failed || r.out != "" || !strings.Contains(r.err, why) {
				t.Errorf("%s %v: %+v", args[0], flags, r)
			}
		}
	}
	if _, err := os.Lstat(local); err == nil {
		t.Error("a file of a refused server was written")
	}
	if r := must(t, "ls", url, "-guest"); r.out != "file\n" {
		t.Errorf("%q", r.out)
	}
	must(t, "get", "-guest", url+"/file", local)
	if b, err := os.ReadFile(local); string(b) != "for all" {
		t.Errorf("%q, %v", b, err)
	}
}

// Many small files.
func TestManySmall(t *testing.T) {
	s := startServer(t, rig.Config{})
	dir := t.TempDir()
	files := map[string]string{}
	for i := range 522 {
		files[fmt.Sprintf("src/%d/%d", i%3, i)] = strings.Repeat("x", i*20)
	}
	write(t, dir, files)
	src := filepath.Join(dir, "src")
	if r := must(t, "put", "-r", "-stats", src, s.url("many")); !strings.Contains(r.err, " 1 connection\n") {
		t.Errorf("%q", r.err)
	}
	sameTree(t, src, filepath.Join(s.Dir, "many"))
	must(t, "get", "-r", "-T", s.url("many"), filepath.Join(dir, "back"))
	sameTree(t, src, filepath.Join(dir, "back"))
	for name := range files { // as many again, over what is there
		files[name] = strings.ToUpper(files[name])
	}
	write(t, dir, files)
	must(t, "put", "-r", "-T", src, s.url("many"))
	sameTree(t, src, filepath.Join(s.Dir, "many"))
	if r := must(t, "get", "-r", "-T", s.url("many"), filepath.Join(dir, "back")); strings.Contains(r.err, "already there") {
		t.Errorf("%q", r.err)
	}
	sameTree(t, src, filepath.Join(dir, "back"))
}

// TestPartIsPrivate gets a file onto one that others may not read: they may not read the part of it either.
func TestPartIsPrivate(t *testing.T) { eachMode(t, testPartIsPrivate) }

func testPartIsPrivate(t *testing.T, s server) {
	source, _ := bigFile(t)
	must(t, "put", source, s.url("big"))
	dir := t.TempDir()
	write(t, dir, map[string]string{"secret": "old"})
	target := filepath.Join(dir, "secret")
	if err := os.Chmod(target, 0o600); err != nil {
		t.Fatal(err)
	}
	interrupt(t, s.url("big"), target, 1<<20)
	here, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	l := newLocal(here, dir)
	defer l.Close()
	small := partPrefix + "small"
	if err := l.WriteNew(small, small, []byte("x"), time.Now()); err != nil {
		t.Fatal(err)
	}
	found := parts(t, dir)
	if len(found) != 2 {
		t.Fatalf("parts: %v", found)
	}
	for _, name := range found {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

// TestUnsayableLocalName puts a directory with a file whose name would be a path on the server: the others are copied.
func TestUnsayableLocalName(t *testing.T) {
	s := startServer(t, rig.Config{})
	dir := filepath.Join(t.TempDir(), "dir")
	write(t, dir, map[string]string{`a\b`: "1", "c": "2"})
	r := run(t.Context(), "put", "-r", dir, s.url("dir"))
	if r.status != cli.Failed || !strings.Contains(r.err, `a\\b`) {
		t.Errorf("%+v", r)
	}
	if got, err := os.ReadFile(filepath.Join(s.Dir, "dir", "c")); string(got) != "2" {
		t.Errorf("the other file: %q, %v", got, err)
	}
}
