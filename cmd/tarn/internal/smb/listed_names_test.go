package smb

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
)

// TestSyncNamesListedOtherwise synchronises files and directories whose names Samba lists as others, several times: each stays, is
// copied once, and what the source does not have is removed.
func TestSyncNamesListedOtherwise(t *testing.T) {
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			s := startServer(t, rig.Config{Mode: mode})
			src, dst := filepath.Join(t.TempDir(), "src"), filepath.Join(s.Dir, "there")
			content := map[string]string{
				"plain": "a", "aux.c": "b", "con": "c", "dot.": "d", "space ": "e", "prn/nul.txt": "f", "dir./file": "g", "Lpt1": "h", "...": "i",
				"auxiliary.c": "j", "com10": "k",
			}
			write(t, src, content)
			must(t, "sync", "-delete", src, s.url("there"))
			sameTree(t, src, dst)
			for range 2 {
				r := must(t, "sync", "-delete", "-P", src, s.url("there"))
				if strings.Contains(r.out, "copy") || strings.Contains(r.out, "remove") {
					t.Errorf("a repetition changed files:\n%s", r.out)
				}
				sameTree(t, src, dst)
			}
			for _, gone := range []string{"aux.c", "dir./file"} {
				if err := os.Remove(filepath.Join(src, gone)); err != nil {
					t.Fatal(err)
				}
			}
			must(t, "sync", "-delete", src, s.url("there"))
			sameTree(t, src, dst)
		})
	}
}
