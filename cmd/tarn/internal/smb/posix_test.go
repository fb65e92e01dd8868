//go:build unix

package smb

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/internal/umask"
)

// TestPOSIX lists, copies and links with the POSIX extensions, and compares with the server's disk.
func TestPOSIX(t *testing.T) {
	s := server{rigtest.StartPOSIX(t, "../../../..", rig.Config{})}
	t.Setenv("SMB_PASSWORD", s.Password)
	dir := t.TempDir()
	write(t, dir, map[string]string{"small": "small", "long": strings.Repeat("long", 1<<18)})
	mask := umask.Get()
	must(t, "mkdir", "-posix", s.url("made"))
	must(t, "put", "-posix", filepath.Join(dir, "small"), filepath.Join(dir, "long"), s.url("made"))
	for name, want := range map[string]os.FileMode{"made": os.ModeDir | 0o777&^mask, "made/small": 0o666 &^ mask, "made/long": 0o666 &^ mask} {
		if fi, err := os.Stat(filepath.Join(s.Dir, name)); err != nil || fi.Mode() != want {
			t.Errorf("%s: %v, %v, want %v", name, fi.Mode(), err, want)
		}
	}
	if err := os.Chmod(filepath.Join(s.Dir, "made", "small"), 0o640); err != nil {
		t.Fatal(err)
	}
	must(t, "ln", s.url("made/small"), s.url("made/hard"))
	must(t, "ln", s.url("made/small"), s.url("made/long"), s.url("")) // into a directory
	must(t, "ln", "-posix", "-s", "small", s.url("made/soft"))
	out := must(t, "ls", "-l", "-posix", s.url("made")).out
	for _, want := range []string{"-rw-r-----            5 ", " hard\n", " soft -> small\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if out := must(t, "ls", "-json", "-posix", s.url("small")).out; !strings.Contains(out, `"mode":"0640","links":3,`) {
		t.Error(out)
	}
	if out := must(t, "ls", "-json", s.url("small")).out; strings.Contains(out, `"mode"`) {
		t.Error(out)
	}
	if r := run(t.Context(), "ln", "-s", s.url("a"), s.url("b")); r.status != cli.Usage {
		t.Errorf("%d: %s", r.status, r.err)
	}
	if r := run(t.Context(), "ln", s.url("small"), s.url("made/hard")); r.status != cli.Failed || !strings.Contains(r.err, "exist") {
		t.Errorf("%d: %s", r.status, r.err)
	}
}

// TestPutAllNames copies names that a server without the POSIX extensions would refuse, or take for one name, twice.
func TestPutAllNames(t *testing.T) {
	s := server{rigtest.StartPOSIX(t, "../../../..", rig.Config{Share: []string{"mangled names = no"}})}
	t.Setenv("SMB_PASSWORD", s.Password)
	dir := filepath.Join(t.TempDir(), "dir")
	long := strings.Repeat("long", 1<<18)
	files := map[string]string{"name": "lower", "NAME": "upper", "a:b": "colon", "sub/long": long, "sub/LONG": "L" + long}
	write(t, dir, files)
	check := func(target string) {
		t.Helper()
		for name, want := range files {
			if b, err := os.ReadFile(filepath.Join(s.Dir, target, name)); string(b) != want || err != nil {
				t.Errorf("%s/%s: %d bytes, %v", target, name, len(b), err)
			}
		}
	}
	must(t, "put", "-r", "-posix", dir, s.url("new")) // the target is a new directory
	check("new")
	must(t, "mkdir", s.url("in"))
	for range 2 {
		must(t, "put", "-r", "-posix", dir, s.url("in"))
		check("in/dir")
	}
	must(t, "put", "-posix", filepath.Join(dir, "name"), filepath.Join(dir, "NAME"), s.url(""))
	for _, name := range []string{"name", "NAME"} {
		if b, err := os.ReadFile(filepath.Join(s.Dir, name)); string(b) != files[name] || err != nil {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if r := run(t.Context(), "put", filepath.Join(dir, "name"), filepath.Join(dir, "NAME"), s.url("in")); r.status != cli.Usage {
		t.Errorf("without -posix: %d: %s", r.status, r.err)
	}
}

// TestMoveLinks renames symbolic links that a client has made, which Samba 4.22 makes empty files of, and one of the server's disk.
func TestMoveLinks(t *testing.T) {
	s := server{rigtest.StartPOSIX(t, "../../../..", rig.Config{})}
	t.Setenv("SMB_PASSWORD", s.Password)
	for _, options := range [][]string{{"-posix"}, {}} {
		must(t, "mkdir", s.url("dir"))
		must(t, "ln", "-posix", "-s", "target", s.url("made"))
		must(t, "ln", "-posix", "-s", "target", s.url("other"))
		then := time.Unix(1e9, 0)
		if err := os.Chtimes(filepath.Join(s.Dir, "made"), then, then); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("target", filepath.Join(s.Dir, "disk")); err != nil {
			t.Fatal(err)
		}
		mv := append([]string{"mv"}, options...)
		must(t, append(mv, s.url("made"), s.url("renamed"))...)
		must(t, append(mv, s.url("renamed"), s.url("disk"), s.url("dir"))...)
		if r := run(t.Context(), "mv", "-posix", s.url("other"), s.url("dir/disk")); r.status != cli.Failed || !strings.Contains(r.err, "exist") {
			t.Errorf("onto a link: %d: %s", r.status, r.err)
		}
		out := must(t, "ls", "-l", "-posix", s.url("")).out + must(t, "ls", "-l", "-posix", s.url("dir")).out
		for _, want := range []string{" renamed -> target\n", " disk -> target\n", " other -> target\n"} {
			if strings.Count(out, want) != 1 || strings.Contains(out, " made") {
				t.Errorf("%v: %q is not once in\n%s", options, want, out)
			}
		}
		if fi, err := os.Lstat(filepath.Join(s.Dir, "dir", "renamed")); err != nil || !fi.ModTime().Equal(then) {
			t.Errorf("%v: the link that was moved has not its time: %v, %v", options, fi, err)
		}
		if to, err := os.Readlink(filepath.Join(s.Dir, "dir", "disk")); to != "target" || err != nil {
			t.Errorf("the link of the server's disk: %q, %v", to, err)
		}
		must(t, "rm", "-r", "-posix", s.url("dir"), s.url("other"))
	}
}
