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

// TestControlCharactersInNames has ls print a name that a wildcard matched, with CSI of C1 in it. Names with ESC are not SMB's.
func TestControlCharactersInNames(t *testing.T) {
	s := startServer(t, rig.Config{})
	write(t, s.Dir, map[string]string{"a\u009b31m": "1"})
	r := must(t, "ls", s.url("a*"))
	if r.out != "a?31m\n" {
		t.Errorf("%q", r.out)
	}
	r = must(t, "ls", "-json", s.url("a*"))
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
	if r := must(t, "ls", "-r", s.url("")); strings.Contains(r.out, "a/b") || strings.Contains(r.out, "plain") {
		t.Errorf("%q", r.out)
	}
	must(t, "put", odd, s.url("renamed"))
	if b, err := os.ReadFile(filepath.Join(s.Dir, "renamed")); string(b) != "x" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestShareOfOddName lists the shares of a server of which one has a name that is a path: the others are listed, and the name is reported.
func TestShareOfOddName(t *testing.T) {
	s := startServer(t, rig.Config{Shares: []string{"[odd/name]\npath = /"}})
	r := run(t.Context(), "ls", "smb://"+s.User+"@"+s.Addr)
	if r.status != cli.Failed || !strings.Contains(r.out, "share\n") || !strings.Contains(r.err, "odd/name") {
		t.Errorf("%+v", r)
	}
}

// TestTemporaryNames leaves the files alone that another program is just writing, with ReplaceFile of package smb or with this
// command: they are not copied with their directory, which is reported, and not removed.
func TestTemporaryNames(t *testing.T) {
	s := startServer(t, rig.Config{})
	part, beside := partPrefix+"0123-4567", partPrefix+rand.Text()
	dir := t.TempDir()
	src := filepath.Join(dir, "src")
	write(t, src, map[string]string{"file": "x", part: "p", beside: "t", ".tarn-notes": "n"})
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
	for _, name := range []string{"file", part, beside, ".tarn-notes"} {
		if _, err := os.Stat(filepath.Join(there, name)); err != nil {
			t.Error(err)
		}
	}
}

// TestTemporaryNameGiven copies files with temporary names that are arguments themselves, there and back.
func TestTemporaryNameGiven(t *testing.T) {
	s := startServer(t, rig.Config{})
	for _, name := range []string{partPrefix + rand.Text(), partPrefix + "0123-4567"} {
		src, back := t.TempDir(), t.TempDir()
		write(t, src, map[string]string{name: "mine"})
		for _, r := range []result{
			must(t, "put", filepath.Join(src, name), s.url("")),
			must(t, "get", s.url(name), back),
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
	for _, name := range []string{partPrefix + rand.Text(), partPrefix + "0123-4567"} {
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
		must(t, "get", s.url(name[:10]+"*"), back+"/")
		sameTree(t, src, back)
		must(t, "rm", s.url(name), s.url("whole"))
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
	must(t, "put", "-anew", filepath.Join(src, "Name"), s.url("there"))
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

// The URLs that ls -json writes name the files that it has listed: a name may look as if it were encoded.
func TestListedURLs(t *testing.T) {
	s := startServer(t, rig.Config{})
	write(t, s.Dir, map[string]string{"a%20b": "encoded", "a b": "space"})
	r := must(t, "ls", "-json", s.url("a%2520b"))
	var o fileObject
	if err := json.Unmarshal([]byte(r.out), &o); err != nil {
		t.Fatal(err)
	}
	if r := must(t, "cat", strings.Replace(o.URL, "smb://", "smb://"+s.User+"@", 1)); r.out != "encoded" {
		t.Errorf("%s: %q", o.URL, r.out)
	}
}

// A refusal of the anonymous user says that the URL has no user.
func TestForgottenUser(t *testing.T) {
	s := startServer(t, rig.Config{})
	r := run(t.Context(), "ls", strings.Replace(s.url(""), s.User+"@", "", 1))
	if r.status != cli.Failed || !strings.Contains(r.err, "the URL has no user") {
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
