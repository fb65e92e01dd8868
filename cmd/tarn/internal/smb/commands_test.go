//go:build unix

package smb

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
	"github.com/tarn-go/tarn/internal/rig"
)

func TestArrange(t *testing.T) {
	s := startServer(t, rig.Config{})
	must(t, "mkdir", s.url("a"), s.url("b"))
	must(t, "mkdir", "-p", s.url("a/b/c"), s.url("a"))
	if r := run(t.Context(), "mkdir", s.url("a")); r.status != cli.Failed {
		t.Errorf("mkdir of what is there: %+v", r)
	}
	dir := t.TempDir()
	write(t, dir, map[string]string{"one": "1", "two": "22", "other": "333"})
	must(t, "put", filepath.Join(dir, "one"), filepath.Join(dir, "two"), filepath.Join(dir, "other"), s.url("a"))
	must(t, "mv", s.url("a/one"), s.url("a/uno"))
	must(t, "mv", s.url("a/uno"), s.url("a/t*"), s.url("b"))
	if r := must(t, "ls", s.url("b")); r.out != "two\nuno\n" {
		t.Errorf("%q", r.out)
	}
	write(t, dir, map[string]string{"two": "again"})
	must(t, "put", filepath.Join(dir, "two"), s.url("a/two"))
	for name, args := range map[string][]string{
		"onto another":      {"mv", s.url("a/two"), s.url("b/two")},
		"into, onto":        {"mv", s.url("a/two"), s.url("b")},
		"what is not there": {"mv", s.url("none"), s.url("b")},
		"no match":          {"mv", s.url("none*"), s.url("b")},
	} {
		r := run(t.Context(), args...)
		if r.status != cli.Failed || strings.Contains(name, "onto") && !strings.Contains(r.err, "(a file or directory of that name exists)") {
			t.Errorf("%s: %+v", name, r)
		}
	}
	for name, args := range map[string][]string{
		"several to a file": {"mv", s.url("a/two"), s.url("b/uno"), s.url("none")},
		"another share":     {"mv", s.url("a/two"), "smb://" + s.User + "@" + s.Addr + "/readonly/x"},
		"a share":           {"mv", s.url(""), s.url("b")},
	} {
		if r := run(t.Context(), args...); r.status != cli.Usage {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if b, err := os.ReadFile(filepath.Join(s.Dir, "b/two")); err != nil || string(b) != "22" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestWildcards(t *testing.T) {
	s := startServer(t, rig.Config{})
	src := t.TempDir()
	write(t, src, map[string]string{"a1.txt": "1", "a2.txt": "2", "b1.txt": "3", "d1/x.txt": "4", "d2/x.txt": "5", "[odd]": "6"})
	must(t, "put", "-r", src, s.url("w"))
	if r := must(t, "ls", s.url("w/a?.txt")); r.out != "a1.txt\na2.txt\n" {
		t.Errorf("ls: %q", r.out)
	}
	if r := must(t, "cat", s.url("w/[a-b]1.txt"), s.url("w/d*/x.txt"), s.url("w/[odd]")); r.out != "13456" {
		t.Errorf("cat: %q", r.out)
	}
	dir := t.TempDir()
	must(t, "get", "-r", s.url("w/*"), dir)
	sameTree(t, src, dir)
	must(t, "cp", s.url("w/a*"), s.url("w/d1"))
	if r := must(t, "du", "-json", s.url("w/d?")); strings.Count(r.out, "\n") != 2 || !strings.Contains(r.out, `"bytes":3,"files":3}`) {
		t.Errorf("du: %q", r.out)
	}
	must(t, "rm", s.url("w/*.txt"))
	if r := must(t, "ls", s.url("w")); r.out != "[odd]\nd1/\nd2/\n" {
		t.Errorf("after rm: %q", r.out)
	}
	if r := run(t.Context(), "get", s.url("w/*.txt"), dir); r.status != cli.Failed || !strings.Contains(r.err, "nothing matches") {
		t.Errorf("%+v", r)
	}
	if r := run(t.Context(), "ls", s.url("w/[x")); r.status != cli.Usage {
		t.Errorf("malformed: %+v", r)
	}
}

func TestFind(t *testing.T) { eachMode(t, testFind) }

func testFind(t *testing.T, s server) {
	src := t.TempDir()
	write(t, src, map[string]string{"small.go": "1", "large.go": strings.Repeat("x", 3000), "sub/deep.go": "12", "sub/note.md": "1"})
	old := time.Now().Add(-48 * time.Hour)
	if err := os.Chtimes(filepath.Join(src, "small.go"), old, old); err != nil {
		t.Fatal(err)
	}
	must(t, "put", "-r", src, s.url("f"))
	base := "smb://" + s.Addr + "/share/f"
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"-name", "*.go"}, []string{"/large.go", "/small.go", "/sub/deep.go"}},
		{[]string{"-type", "d"}, []string{"", "/sub"}},
		{[]string{"-larger", "2K"}, []string{"/large.go"}},
		{[]string{"-type", "f", "-smaller", "2"}, []string{"/small.go", "/sub/note.md"}},
		{[]string{"-older", "24h"}, []string{"/small.go"}},
		{[]string{"-newer", "24h", "-name", "s*.go"}, nil},
	} {
		r := must(t, append(append([]string{"find"}, c.args...), s.url("f"))...)
		var got []string
		for line := range strings.Lines(r.out) {
			got = append(got, strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(line, "\n"), base), "/"))
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: %q, want %q", c.args, got, c.want)
		}
	}
	if r := run(t.Context(), "find", "-type", "x", s.url("")); r.status != cli.Usage {
		t.Errorf("%+v", r)
	}
	if r := run(t.Context(), "find", "-larger", "2X", s.url("")); r.status != cli.Usage {
		t.Errorf("%+v", r)
	}
}

func TestSync(t *testing.T) {
	for _, direction := range []string{"put", "get"} {
		eachMode(t, func(t *testing.T, s server) {
			dir := t.TempDir()
			here := filepath.Join(dir, "here")
			there := filepath.Join(s.Dir, "there")
			from, to, fromArg, toArg := here, there, here, s.url("there")
			if direction == "get" {
				from, to, fromArg, toArg = there, here, s.url("there"), here
			}
			write(t, from, map[string]string{"same": "s", "new": "n", "sub/new": "n", "changed": "now", "turned": "file", "dir/x": "x"})
			write(t, to, map[string]string{"extra": "e", "sub/extra": "e", "gone/x": "e", "changed": "was", "turned/x": "dir", "dir": "file"})
			// Of the same size, and perhaps written within one tick of the system's clock: the times must differ.
			earlier := time.Now().Add(-time.Hour)
			if err := os.Chtimes(filepath.Join(to, "changed"), earlier, earlier); err != nil {
				t.Fatal(err)
			}
			if direction == "get" {
				for _, d := range []string{there, there + "/sub", there + "/dir"} {
					if err := os.Chmod(d, 0o755); err != nil {
						t.Fatal(err)
					}
				}
			} else if err := chownTree(s, there); err != nil {
				t.Fatal(err)
			}
			r := must(t, "sync", "-delete", "-dry-run", fromArg, toArg)
			for _, want := range []string{"copy ", "remove ", "extra\n", "/turned\n", "/dir\n"} { // a line of a copy ends with the size
				if !strings.Contains(r.out, want) {
					t.Errorf("dry run: %q", r.out)
				}
			}
			if _, err := os.Stat(filepath.Join(to, "new")); err == nil {
				t.Error("the dry run copied")
			}
			if _, err := os.Stat(filepath.Join(to, "extra")); err != nil {
				t.Error("the dry run removed")
			}
			must(t, "sync", "-delete", fromArg, toArg)
			sameTree(t, from, to)
			r = must(t, "sync", "-delete", "-json", fromArg, toArg)
			if strings.Contains(r.out, `"remove"`) || strings.Contains(r.out, `"copy"`) || strings.Count(r.out, `"skip"`) != 6 {
				t.Errorf("again: %q", r.out)
			}
		})
	}
}

// TestControlCharactersInNames has du print a name that a wildcard matched, with CSI of C1 in it. Names with ESC are not SMB's.
func TestControlCharactersInNames(t *testing.T) {
	s := startServer(t, rig.Config{})
	write(t, s.Dir, map[string]string{"a\u009b31m": "1"})
	r := must(t, "du", s.url("a*"))
	if !strings.HasSuffix(r.out, "/a?31m\n") {
		t.Errorf("%q", r.out)
	}
	r = must(t, "du", "-json", s.url("a*"))
	if !strings.Contains(r.out, `/a\u009b31m"`) {
		t.Errorf("%q", r.out)
	}
}

// TestBackslashInName puts a file whose name SMB would read as a path: it is refused, and nothing is written into the directory
// that the path names. Under another name it is copied.
func TestBackslashInName(t *testing.T) {
	s := startServer(t, rig.Config{})
	src := t.TempDir()
	write(t, src, map[string]string{`a\b`: "x", "plain": "y"})
	must(t, "mkdir", s.url("a"))
	odd := filepath.Join(src, `a\b`)
	for _, args := range [][]string{
		{"put", odd, s.url("")},
		{"put", filepath.Join(src, "plain"), odd, s.url("")},
	} {
		if r := run(t.Context(), args...); r.status != cli.Usage || !strings.Contains(r.err, `a\b`) {
			t.Errorf("%v: %+v", args, r)
		}
	}
	if r := must(t, "find", s.url("")); strings.Contains(r.out, "a/b") || strings.Contains(r.out, "plain") {
		t.Errorf("%q", r.out)
	}
	must(t, "put", odd, s.url("renamed"))
	if b, err := os.ReadFile(filepath.Join(s.Dir, "renamed")); string(b) != "x" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestTemporaryNames leaves the files alone that another program is just writing, with ReplaceFile of package smb or with this
// command: they are not copied with their directory, which is reported, and sync -delete does not remove them.
func TestTemporaryNames(t *testing.T) {
	s := startServer(t, rig.Config{})
	part, beside := partPrefix+"0123-4567", replacePrefix+rand.Text()
	dir := t.TempDir()
	src := filepath.Join(dir, "src")
	write(t, src, map[string]string{"file": "x", part: "p", beside: "t", replacePrefix + "notes": "n"})
	leftOut := func(args ...string) {
		t.Helper()
		r := run(t.Context(), args...)
		if r.status != cli.Failed || !strings.Contains(r.err, "copied 2 of 2") {
			t.Errorf("%s: %+v", args[0], r)
		}
		for _, name := range []string{part, beside} {
			if n := strings.Count(r.err, "left out, a temporary name: "); n != 2 || !strings.Contains(r.err, name) {
				t.Errorf("%s: %q", args[0], r.err)
			}
		}
	}
	leftOut("put", "-r", src, s.url("there"))
	there := filepath.Join(s.Dir, "there")
	write(t, there, map[string]string{part: "p", beside: "t"})
	back := filepath.Join(dir, "back")
	leftOut("get", "-r", s.url("there"), back)
	leftOut("sync", "-delete", src, s.url("there"))
	for _, name := range []string{part, beside} {
		if err := os.Remove(filepath.Join(src, name)); err != nil {
			t.Fatal(err)
		}
	}
	must(t, "sync", "-delete", src, s.url("there"))
	for _, name := range []string{"file", part, beside, replacePrefix + "notes"} {
		if _, err := os.Stat(filepath.Join(there, name)); err != nil {
			t.Error(err)
		}
	}
}

// TestTemporaryNameGiven copies files with temporary names that are arguments themselves, there and back.
func TestTemporaryNameGiven(t *testing.T) {
	s := startServer(t, rig.Config{})
	for _, name := range []string{replacePrefix + rand.Text(), partPrefix + "0123-4567"} {
		src, back := t.TempDir(), t.TempDir()
		write(t, src, map[string]string{name: "mine"})
		for _, r := range []result{
			must(t, "put", filepath.Join(src, name), s.url("")),
			must(t, "cp", s.url(name), s.url("copy")),
			must(t, "get", s.url("copy"), filepath.Join(back, name)),
		} {
			if !strings.Contains(r.err, "copied 1 of 1") {
				t.Errorf("%s: %q", name, r.err)
			}
		}
		sameTree(t, src, back)
	}
}

// TestTemporaryNameMatched leaves files with temporary names out of what a pattern matches, reports them, and copies them where the
// pattern begins as their names do.
func TestTemporaryNameMatched(t *testing.T) {
	s := startServer(t, rig.Config{})
	for _, name := range []string{replacePrefix + rand.Text(), partPrefix + "0123-4567"} {
		src, back := t.TempDir(), t.TempDir()
		write(t, src, map[string]string{name: "half"})
		must(t, "put", filepath.Join(src, name), s.url(""))
		write(t, src, map[string]string{"whole": "whole"})
		must(t, "put", filepath.Join(src, "whole"), s.url(""))
		r := run(t.Context(), "get", s.url("*"), back+"/")
		if r.status != cli.Failed || !strings.Contains(r.err, "copied 1 of 1") || !strings.Contains(r.err, "left out, a temporary name: ") || !strings.Contains(r.err, name) {
			t.Errorf("%+v", r)
		}
		if _, err := os.Stat(filepath.Join(back, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
		must(t, "get", s.url(replacePrefix+"*"), back+"/")
		sameTree(t, src, back)
		must(t, "rm", s.url(name), s.url("whole"))
	}
}

// chownTree makes the server's user the owner of what a test made on the server's disk.
func chownTree(s server, root string) error {
	owner, err := os.Stat(s.Dir)
	if err != nil {
		return err
	}
	return filepath.WalkDir(root, func(name string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return chownLike(name, owner)
	})
}

// Without -delete nothing is removed, nor when something could not be copied.
func TestSyncKeeps(t *testing.T) {
	s := startServer(t, rig.Config{})
	src := t.TempDir()
	write(t, src, map[string]string{"one": "1"})
	must(t, "sync", src, s.url("there"))
	write(t, src, map[string]string{"bad:name": "x"})
	if err := os.Rename(filepath.Join(src, "one"), filepath.Join(src, "two")); err != nil {
		t.Fatal(err)
	}
	must(t, "sync", "-dry-run", src, s.url("there"))
	r := run(t.Context(), "sync", "-delete", src, s.url("there"))
	if r.status != cli.Failed || !strings.Contains(r.err, "nothing was removed") {
		t.Errorf("%+v", r)
	}
	for _, name := range []string{"one", "two"} {
		if _, err := os.Stat(filepath.Join(s.Dir, "there", name)); err != nil {
			t.Error(err)
		}
	}
	if r := run(t.Context(), "sync", filepath.Join(src, "two"), s.url("there")); r.status != cli.Usage {
		t.Errorf("a file: %+v", r)
	}
}

// A server treats names that differ only in case as equal: a file is neither overwritten by another of
// that name nor removed because it was written in another case.
func TestCase(t *testing.T) {
	s := startServer(t, rig.Config{})
	src := t.TempDir()
	write(t, src, map[string]string{"Name": "capital"})
	must(t, "put", filepath.Join(src, "Name"), s.url("name"))
	must(t, "mkdir", s.url("there"))
	must(t, "mv", s.url("name"), s.url("there"))
	must(t, "sync", "-delete", "-anew", src, s.url("there"))
	if r := must(t, "cat", s.url("there/NAME")); r.out != "capital" {
		t.Errorf("%q", r.out)
	}
	write(t, src, map[string]string{"name": "small"})
	if r := run(t.Context(), "put", "-r", src, s.url("both")); r.status != cli.Failed || !strings.Contains(r.err, "case alone") {
		t.Errorf("%+v", r)
	}
}

func TestJSONAndStats(t *testing.T) {
	s := startServer(t, rig.Config{})
	src := t.TempDir()
	write(t, src, map[string]string{"a": "1", "b:": "2"})
	r := run(t.Context(), "put", "-r", "-json", "-stats", src, s.url("j"))
	if r.status != cli.Failed {
		t.Errorf("%+v", r)
	}
	events := map[string]event{}
	for line := range strings.Lines(r.out) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		events[filepath.Base(e.Source)] = e
	}
	if e := events["a"]; e.Action != "copy" || e.Bytes != 1 || e.Error != "" || !strings.HasSuffix(e.Target, "/j/a") {
		t.Errorf("%+v", e)
	}
	if e := events["b:"]; e.Error == "" {
		t.Errorf("%+v", e)
	}
	if !strings.Contains(r.err, " round trips, 1 connection\n") || !strings.Contains(r.err, " sent, ") {
		t.Errorf("%q", r.err)
	}
	r = must(t, "ls", "-json", s.url("j"))
	var o fileObject
	if err := json.Unmarshal([]byte(r.out), &o); err != nil || o.Type != "file" || o.Bytes != 1 || !strings.HasSuffix(o.URL, "/j/a") || time.Since(o.Modified) > time.Hour {
		t.Errorf("%q: %+v, %v", r.out, o, err)
	}
	if r := must(t, "ls", "-json", "smb://"+s.User+"@"+s.Addr); !strings.Contains(r.out, `{"share":"share","comment":"for tests","type":0}`) {
		t.Errorf("%q", r.out)
	}
	if r := must(t, "get", "-P", s.url("j/a"), t.TempDir()); !strings.HasPrefix(r.out, "copy smb://") {
		t.Errorf("-P: %q", r.out)
	}
}

func TestNTHash(t *testing.T) {
	s := startServer(t, rig.Config{})
	file := filepath.Join(t.TempDir(), "hash")
	const hash = "00000000000000000000000000000000"
	for text, status := range map[string]int{ntHash(s.Password) + "\n": cli.OK, hash: cli.Failed, "xyz": cli.Usage} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := run(t.Context(), "ls", s.url(""), "-nt-hash-file", file); r.status != status {
			t.Errorf("%q: %+v", text, r)
		}
	}
	t.Setenv("SMB_NT_HASH", ntHash(s.Password))
	t.Setenv("SMB_PASSWORD", "wrong")
	must(t, "ls", s.url(""))
	if r := run(t.Context(), "ls", "-nt-hash-file", file, "-password-file", file, s.url("")); r.status != cli.Usage {
		t.Errorf("%+v", r)
	}
}

// DOMAIN\user is how Windows writes a user.
func TestDomainUser(t *testing.T) {
	s := startServer(t, rig.Config{})
	must(t, "ls", fmt.Sprintf(`smb://WORKGROUP\%s@%s/%s`, s.User, s.Addr, s.Share))
	if l, err := parseLocation(`smb://D\u@h/s/a`); err != nil || l.domain != "D" || l.user != "u" || l.path != "a" {
		t.Errorf("%+v, %v", l, err)
	}
	l, err := parseLocation("smb://D;u@h:4/s/100%25 #1?.txt")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := parseLocation(l.url()); err != nil || again != l {
		t.Errorf("%+v, %+v, %v", l, again, err)
	}
}
