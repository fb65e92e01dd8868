package smb

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
)

// TestNamesListedOtherwise puts files and directories whose names Samba lists as others, several times: each is copied once.
func TestNamesListedOtherwise(t *testing.T) {
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			s := startServer(t, rig.Config{Mode: mode})
			src, dst := filepath.Join(t.TempDir(), "src"), filepath.Join(s.Dir, "there")
			content := map[string]string{
				"plain": "a", "aux.c": "b", "con": "c", "dot.": "d", "space ": "e", "prn/nul.txt": "f", "dir./file": "g", "Lpt1": "h", "...": "i",
				"auxiliary.c": "j", "com10": "k",
			}
			write(t, src, content)
			must(t, "put", "-r", "-T", src, s.url("there"))
			sameTree(t, src, dst)
			for range 2 {
				r := must(t, "put", "-r", "-T", "-P", src, s.url("there"))
				if strings.Contains(r.out, "copy") {
					t.Errorf("a repetition changed files:\n%s", r.out)
				}
				sameTree(t, src, dst)
			}
		})
	}
}

// TestNamesInOtherCase copies files to a server that has them under names in another case: files that are the same are not copied
// again, others are.
func TestNamesInOtherCase(t *testing.T) {
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			s := startServer(t, rig.Config{Mode: mode})
			src := filepath.Join(t.TempDir(), "src")
			write(t, src, map[string]string{"README": "a", "Dir/File": "b", "plain": "c"})
			must(t, "put", "-r", "-T", src, s.url("there"))
			for _, c := range [][2]string{{"README", "readme"}, {"Dir/File", "Dir/fILE"}, {"Dir", "dIR"}} {
				if err := os.Rename(filepath.Join(s.Dir, "there", c[0]), filepath.Join(s.Dir, "there", c[1])); err != nil {
					t.Fatal(err)
				}
			}
			for _, args := range [][]string{
				{"put", "-r", "-T", "-P", src, s.url("there")},
				{"put", "-P", filepath.Join(src, "README"), s.url("there")},
			} {
				if r := must(t, args...); strings.Contains(r.out, "copy") {
					t.Errorf("%s changed files:\n%s", args[0], r.out)
				}
			}
			write(t, src, map[string]string{"README": "changed"})
			must(t, "put", "-r", "-T", src, s.url("there"))
			if r := must(t, "cat", s.url("there/readme")); r.out != "changed" {
				t.Errorf("%q", r.out)
			}
		})
	}
	t.Run("distinguished", func(t *testing.T) {
		s := startServer(t, rig.Config{Share: []string{"case sensitive = yes"}})
		src := filepath.Join(t.TempDir(), "src")
		write(t, src, map[string]string{"README": "a"})
		must(t, "put", "-r", "-T", src, s.url("there"))
		if err := os.Rename(filepath.Join(s.Dir, "there", "README"), filepath.Join(s.Dir, "there", "readme")); err != nil {
			t.Fatal(err)
		}
		must(t, "put", "-r", "-T", src, s.url("there")) // same length and time
		if r := must(t, "cat", s.url("there/README")); r.out != "a" {
			t.Errorf("%q", r.out)
		}
	})
}
