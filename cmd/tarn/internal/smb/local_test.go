package smb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

func openTestDir(t *testing.T) (*local, string) {
	t.Helper()
	dir := t.TempDir()
	p, err := openLocal(dir, ".")
	if err != nil {
		t.Fatal(err)
	}
	l := p.tree.(*local)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if l.last != nil {
			t.Error("a folder was kept")
		}
	})
	return l, dir
}

// Files of several directories at once: each is written to its directory, and only the last folder stays open.
func TestLocalFoldersAtOnce(t *testing.T) {
	l, dir := openTestDir(t)
	const folders, files = 3, 20
	for i := range folders {
		if err := l.Mkdir(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	modified := time.Unix(1e9, 0)
	var wg sync.WaitGroup
	for n := range folders * files {
		wg.Go(func() {
			name := fmt.Sprintf("%d/f%d", n%folders, n)
			if err := l.WriteNew(name+".part", name, []byte(name), modified); err != nil {
				t.Error(err)
				return
			}
			data, info, err := l.ReadWhole(name, int64(len(name)))
			if err != nil || string(data) != name || !info.ModTime().Equal(modified) {
				t.Errorf("%s: %q, %v, %v", name, data, info, err)
			}
		})
	}
	wg.Wait()
	for n := range folders * files {
		name := fmt.Sprintf("%d/f%d", n%folders, n)
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != name {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if l.last.users != 1 {
		t.Errorf("%d users of the last folder", l.last.users)
	}
}

// A symbolic link does not lead out of the directory, as a folder or as a file.
func TestLocalFoldersStayInside(t *testing.T) {
	l, dir := openTestDir(t)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, "file")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link/secret", "file", "../x"} {
		if _, _, err := l.ReadWhole(name, 1); err == nil {
			t.Errorf("%s was read", name)
		}
	}
	if err := l.WriteNew("link/.part", "link/new", []byte("x"), time.Now()); err == nil {
		t.Error("a file was made through a link")
	}
	if _, err := os.Stat(filepath.Join(outside, "new")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a file was made outside")
	}
}

// For a file that has grown or shrunk, ReadWhole returns a number of bytes that differs from the expected size.
func TestLocalReadWholeSeesLength(t *testing.T) {
	l, dir := openTestDir(t)
	for have, want := range map[int]int{0: 0, 1: 1, 9: 9, 10: 10, 11: 11, 500: 11} {
		if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, have), 0o600); err != nil {
			t.Fatal(err)
		}
		data, info, err := l.ReadWhole("f", 10)
		if err != nil || info.Size() != int64(have) || len(data) != want {
			t.Errorf("%d bytes: %d read, size %d, %v", have, len(data), info.Size(), err)
		}
	}
}
