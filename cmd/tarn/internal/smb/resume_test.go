package smb

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
)

// interrupt copies source to target and breaks off when so many bytes have been counted.
func interrupt(t *testing.T, source, target string, after int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a := newApp("test", options{jobs: 1, quiet: true, recursive: true},
		cli.Streams{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &bytes.Buffer{}})
	defer a.close()
	to, isDir, err := a.target(ctx, target)
	if err != nil || isDir {
		t.Fatal(isDir, err)
	}
	defer to.close()
	from, err := a.source(ctx, source)
	if err != nil {
		t.Fatal(err)
	}
	defer from.close()
	var p plan
	if err := a.add(ctx, &p, route{from.tree, to.tree, from.name, to.name}); err != nil {
		t.Fatal(err)
	}
	var total atomic.Int64
	err = a.each(ctx, &p, "copy", func(ctx context.Context, j *job, count func(int64)) error {
		return a.copyFile(ctx, j, func(n int64) {
			if total.Add(n) > after {
				cancel()
			}
			count(n)
		})
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("not interrupted: %v", err)
	}
}

// parts are the unfinished files in a directory.
func parts(t *testing.T, dir string) []string {
	t.Helper()
	out, err := filepath.Glob(filepath.Join(dir, partPrefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// mark changes the first bytes of the one part in dir, so that it can be seen in the
// finished file whether the copy went on with it or began anew.
func mark(t *testing.T, dir string) {
	t.Helper()
	found := parts(t, dir)
	if len(found) != 1 {
		t.Fatalf("parts: %v", found)
	}
	f, err := os.OpenFile(found[0], os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("MARKED"), 0); err != nil {
		t.Fatal(err)
	}
}

func bigFile(t *testing.T) (name string, data []byte) {
	t.Helper()
	data = bytes.Repeat([]byte("0123456789abcdef\n"), 64<<20/17)
	name = filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return name, data
}

func TestResumePut(t *testing.T) { eachMode(t, testResumePut) }

func testResumePut(t *testing.T, s server) {
	name, data := bigFile(t)
	interrupt(t, name, s.url("target"), 48<<20)
	if _, err := os.Stat(filepath.Join(s.Dir, "target")); err == nil {
		t.Fatal("half a file has the name of a whole one")
	}
	mark(t, s.Dir)
	must(t, "put", name, s.url("target"))
	checkResumed(t, filepath.Join(s.Dir, "target"), data, s.Dir)
	if r := run(t.Context(), "put", "-verify", name, s.url("target")); r.status != cli.Failed || !strings.Contains(r.err, "differs") {
		t.Errorf("-verify does not see what was changed: %+v", r)
	}
	must(t, "put", "-anew", "-verify", name, s.url("target"))
}

func TestResumeGet(t *testing.T) { eachMode(t, testResumeGet) }

func testResumeGet(t *testing.T, s server) {
	name, data := bigFile(t)
	must(t, "put", name, s.url("source"))
	dir := t.TempDir()
	interrupt(t, s.url("source"), filepath.Join(dir, "target"), 32<<20)
	mark(t, dir)
	must(t, "get", s.url("source"), filepath.Join(dir, "target"))
	checkResumed(t, filepath.Join(dir, "target"), data, dir)
}

func checkResumed(t *testing.T, name string, data []byte, dir string) {
	t.Helper()
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(got, []byte("MARKED")) {
		t.Error("the copy began anew")
	}
	if !bytes.Equal(got[6:], data[6:]) {
		t.Error("the rest differs")
	}
	if left := parts(t, dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A part of a source that has changed since is not continued, and is removed.
func TestResumeChanged(t *testing.T) { eachMode(t, testResumeChanged) }

func testResumeChanged(t *testing.T, s server) {
	name, data := bigFile(t)
	interrupt(t, name, s.url("target"), 48<<20)
	mark(t, s.Dir)
	data = append(data, "more"...)
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
	must(t, "put", name, s.url("target"))
	if got, err := os.ReadFile(filepath.Join(s.Dir, "target")); err != nil || !bytes.Equal(got, data) {
		t.Errorf("differs: %v", err)
	}
	if left := parts(t, s.Dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// An interrupted copy of a tree continues: complete files are not copied again.
func TestResumeTree(t *testing.T) { eachMode(t, testResumeTree) }

func testResumeTree(t *testing.T, s server) {
	src := filepath.Join(t.TempDir(), "src")
	makeTree(t, src)
	interrupt(t, src, s.url("there"), 10<<20)
	must(t, "put", "-r", "-T", src, s.url("there"))
	sameTree(t, src, filepath.Join(s.Dir, "there"))
}
