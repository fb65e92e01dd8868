package smb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
	"github.com/tarn-go/tarn/internal/rig"
)

// result is what one run of the command left behind.
type result struct {
	status   int
	out, err string
}

func run(ctx context.Context, args ...string) result {
	var out, errs bytes.Buffer
	status := Run(ctx, args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
	return result{status, out.String(), errs.String()}
}

func must(t *testing.T, args ...string) result {
	t.Helper()
	r := run(t.Context(), args...)
	if r.status != cli.OK {
		t.Fatalf("tarn smb %s: status %d\n%s", strings.Join(args, " "), r.status, r.err)
	}
	return r
}

// makeTree fills dir with directories and files of many sizes, and returns their number.
func makeTree(t *testing.T, dir string) int {
	t.Helper()
	r := rand.New(rand.NewPCG(11, 12))
	n := 0
	for _, d := range []string{".", "a", "a/b", "a/empty", "Ünï cöde 日本", "with # and %41 and 100% of it"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
		if d == "a/empty" {
			continue
		}
		for i, size := range []int{0, 1, 1000, 65536, 300_001, 1 << 20, 5<<20 + 77} {
			b := make([]byte, size)
			for k := range b {
				b[k] = byte(r.Uint32())
			}
			name := filepath.Join(dir, d, fmt.Sprintf("file-%d.bin", i))
			if err := os.WriteFile(name, b, 0o644); err != nil {
				t.Fatal(err)
			}
			n++
		}
	}
	return n
}

// sameTree fails unless both directories hold the same.
func sameTree(t *testing.T, a, b string) {
	t.Helper()
	list := func(root string) map[string]string {
		out := map[string]string{}
		err := filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			rel, _ := filepath.Rel(root, name)
			if e.IsDir() {
				out[rel] = "directory"
				return nil
			}
			data, err := os.ReadFile(name)
			out[rel] = string(data)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	x, y := list(a), list(b)
	for name, data := range x {
		if other, ok := y[name]; !ok {
			t.Errorf("%s is missing in the copy", name)
		} else if other != data {
			t.Errorf("%s differs", name)
		}
	}
	for name := range y {
		if _, ok := x[name]; !ok {
			t.Errorf("%s is in the copy alone", name)
		}
	}
}

func TestPutGetTree(t *testing.T) {
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			s := startServer(t, rig.Config{Mode: mode})
			dir := t.TempDir()
			n := makeTree(t, filepath.Join(dir, "src"))
			r := must(t, "put", "-r", "-verify", filepath.Join(dir, "src"), s.url("there"))
			if !strings.Contains(r.err, fmt.Sprintf("copied %d of %d files", n, n)) || !strings.Contains(r.err, "verified") {
				t.Errorf("summary: %q", r.err)
			}
			sameTree(t, filepath.Join(dir, "src"), filepath.Join(s.Dir, "there"))
			must(t, "get", "-r", "-verify", "-j", "8", s.url("there"), filepath.Join(dir, "back"))
			sameTree(t, filepath.Join(dir, "src"), filepath.Join(dir, "back"))
			must(t, "rm", "-r", s.url("there"))
			if _, err := os.Stat(filepath.Join(s.Dir, "there")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("still there: %v", err)
			}
		})
	}
}

func TestBrowse(t *testing.T) {
	s := startServer(t, rig.Config{})
	if err := os.MkdirAll(filepath.Join(s.Dir, "d/e"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"d", "d/e"} {
		if err := os.Chmod(filepath.Join(s.Dir, d), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range map[string]string{"d/one": "first\n", "d/e/two": "second\n"} {
		if err := os.WriteFile(filepath.Join(s.Dir, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if r := must(t, "ls", s.url("d")); r.out != "e/\none\n" {
		t.Errorf("ls: %q", r.out)
	}
	if r := must(t, "ls", "-r", s.url("d")); r.out != "e/\ne/two\none\n" {
		t.Errorf("ls -r: %q", r.out)
	}
	if r := must(t, "ls", "-l", s.url("d/one")); !strings.Contains(r.out, " 6 ") || !strings.HasSuffix(r.out, " one\n") {
		t.Errorf("ls -l: %q", r.out)
	}
	if r := must(t, "ls", "smb://"+s.User+"@"+s.Addr); !strings.Contains(r.out, "share\n") {
		t.Errorf("shares: %q", r.out)
	}
	if r := must(t, "cat", s.url("d/one"), s.url("d/e/two")); r.out != "first\nsecond\n" {
		t.Errorf("cat: %q", r.out)
	}
	dir := t.TempDir()
	must(t, "get", s.url("d/one"), dir+"/renamed")
	must(t, "get", s.url("d/one"), s.url("d/e/two"), dir)
	for name, want := range map[string]string{"renamed": "first\n", "one": "first\n", "two": "second\n"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	must(t, "rm", s.url("d/one"))
	if r := run(t.Context(), "rm", s.url("d/e")); r.status != cli.Failed || !strings.Contains(r.err, "not empty") {
		t.Errorf("rm of a directory: %+v", r)
	}
}

func TestFailures(t *testing.T) {
	s := startServer(t, rig.Config{})
	wrong := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(wrong, []byte("wrong\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args   []string
		status int
		says   string
	}{
		"wrong password":   {[]string{"ls", "-password-file", wrong, s.url("")}, cli.Failed, "wrong user or password"},
		"no such share":    {[]string{"ls", "smb://" + s.User + "@" + s.Addr + "/nowhere"}, cli.Failed, "no such share"},
		"no such file":     {[]string{"cat", s.url("nothing")}, cli.Failed, "no such file or directory"},
		"get nothing":      {[]string{"get", s.url("nothing"), t.TempDir()}, cli.Failed, "no such file or directory"},
		"nobody listening": {[]string{"ls", "smb://u@127.0.0.1:1/x"}, cli.Failed, "refused"},
		"put from nowhere": {[]string{"put", t.TempDir() + "/none", s.url("x")}, cli.Failed, "no such file"},
		"directory":        {[]string{"put", t.TempDir(), s.url("x")}, cli.Usage, "-r"},
		"password in URL":  {[]string{"ls", "smb://u:secret@h/s"}, cli.Usage, "can be seen"},
		"not a URL":        {[]string{"ls", "share"}, cli.Usage, "smb://"},
		"unknown flag":     {[]string{"ls", "-z", "smb://h/s"}, cli.Usage, "-z"},
		"unknown command":  {[]string{"frob"}, cli.Usage, "frob"},
		"no arguments":     {[]string{"get"}, cli.Usage, "arguments"},
		"too many jobs":    {[]string{"get", "-j", "65", "smb://h/s/f"}, cli.Usage, "-j"},
		"whole share":      {[]string{"rm", "-r", s.url("")}, cli.Usage, "whole share"},
		"several to file":  {[]string{"put", wrong, wrong, s.url("x")}, cli.Usage, "directory"},
	} {
		r := run(t.Context(), tc.args...)
		if r.status != tc.status || !strings.Contains(r.err, tc.says) {
			t.Errorf("%s: status %d, %q", name, r.status, r.err)
		}
		if strings.Count(r.err, "\n") != 1 {
			t.Errorf("%s: not one line: %q", name, r.err)
		}
		if strings.Contains(r.err, "secret") {
			t.Errorf("%s: shows the password", name)
		}
	}
	if r := run(t.Context()); r.status != cli.Usage || !strings.Contains(r.err, "Usage:") {
		t.Errorf("nothing at all: %+v", r)
	}
	if r := run(t.Context(), "get", "-h"); r.status != cli.OK || !strings.Contains(r.out, "-verify") {
		t.Errorf("help: %+v", r)
	}
}

// When one file fails, the others are copied.
func TestSomeFail(t *testing.T) {
	s := startServer(t, rig.Config{})
	dir := t.TempDir()
	for _, name := range []string{"good-1", "bad:name", "good-2"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := run(t.Context(), "put", "-r", dir, s.url("some"))
	if r.status != cli.Failed || !strings.Contains(r.err, "bad:name") || !strings.Contains(r.err, "copied 2 of 3") {
		t.Errorf("%+v", r)
	}
	for _, name := range []string{"good-1", "good-2"} {
		if b, err := os.ReadFile(filepath.Join(s.Dir, "some", name)); err != nil || string(b) != name {
			t.Errorf("%s: %v", name, err)
		}
	}
}
