package smb

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
	"github.com/tarn-go/tarn/internal/rig"
)

// TestUnreadableDirectory copies trees of which a directory cannot be read or not be made: everything else is copied, nothing is removed, and
// the exit status is 1.
func TestUnreadableDirectory(t *testing.T) {
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			s := startServer(t, rig.Config{Mode: mode})
			src := filepath.Join(t.TempDir(), "src")
			content := map[string]string{"a/1": "1", "m/n/2": "2", "z/3": "3", "last": "4"}
			write(t, src, content)
			must(t, "put", "-r", src, s.url("there"))
			hidden := filepath.Join(s.Dir, "there", "m", "hidden")
			if err := os.Mkdir(hidden, 0); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.Chmod(hidden, 0o700) })
			for _, args := range [][]string{
				{"get", "-r", "-T", s.url("there"), filepath.Join(t.TempDir(), "back")},
			} {
				dst := args[len(args)-1]
				write(t, dst, map[string]string{"extra": "stays"})
				r := run(t.Context(), args...)
				if r.status != cli.Failed || strings.Count(r.err, "left out: ") != 1 || !strings.Contains(r.err, "m/hidden") {
					t.Errorf("%s: status %d\n%s", args[0], r.status, r.err)
				}
				for name, want := range content {
					if got, err := os.ReadFile(filepath.Join(dst, name)); err != nil || string(got) != want {
						t.Errorf("%s: %s has %q, %v", args[0], name, got, err)
					}
				}
				if _, err := os.Stat(filepath.Join(dst, "extra")); err != nil {
					t.Errorf("%s: %v", args[0], err)
				}
			}
			// A file where the source has a directory.
			if err := os.RemoveAll(filepath.Join(s.Dir, "there", "a")); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(s.Dir, "there"), map[string]string{"a": "a file"})
			write(t, src, map[string]string{"z/3": "changed"})
			r := run(t.Context(), "put", "-r", "-T", src, s.url("there"))
			if r.status != cli.Failed || !strings.Contains(r.err, "there/a exists and is not a directory") {
				t.Errorf("put: status %d\n%s", r.status, r.err)
			}
			if b, err := os.ReadFile(filepath.Join(s.Dir, "there", "z", "3")); err != nil || string(b) != "changed" {
				t.Errorf("put: %q, %v", b, err)
			}
		})
	}
}

// TestUnsayableDirectory copies a tree with a directory whose name SMB does not have: that is left out, and everything else is copied.
func TestUnsayableDirectory(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no file system of Windows has the name")
	}
	s := startServer(t, rig.Config{})
	src := filepath.Join(t.TempDir(), "src")
	write(t, src, map[string]string{"a": "1", "d:e/f": "2", "z/g": "3"})
	r := run(t.Context(), "put", "-r", src, s.url("there"))
	if r.status != cli.Failed || strings.Count(r.err, "left out: ") != 1 || !strings.Contains(r.err, "there/d:e") {
		t.Errorf("status %d\n%s", r.status, r.err)
	}
	for name, want := range map[string]string{"a": "1", "z/g": "3"} {
		if got, err := os.ReadFile(filepath.Join(s.Dir, "there", name)); err != nil || string(got) != want {
			t.Errorf("%s has %q, %v", name, got, err)
		}
	}
}
