package smb

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
	"github.com/tarn-go/tarn/internal/rig"
)

// TestRemoveNamesWhatStays has rm -r meet files that cannot be removed: each is named, without the directories that they keep, the
// others are removed, and the command fails.
func TestRemoveNamesWhatStays(t *testing.T) {
	s := startServer(t, rig.Config{})
	for _, name := range []string{"d/a/file", "d/m/one", "d/m/two", "d/q/three", "d/z/file"} {
		must(t, "mkdir", "-p", s.url(filepath.Dir(name)))
		local := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(local, []byte("x"), 0o666); err != nil {
			t.Fatal(err)
		}
		must(t, "put", local, s.url(name))
	}
	for _, kept := range []string{"d/m", "d/q"} {
		dir := filepath.Join(s.Dir, kept)
		if err := os.Chmod(dir, 0o555); err != nil { // nothing can be removed from it
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Chmod(dir, 0o755) })
	}
	r := run(t.Context(), "rm", "-r", s.url("d"))
	lines := strings.Split(strings.TrimSpace(r.err), "\n")
	slices.Sort(lines)
	if r.status != cli.Failed || len(lines) != 3 {
		t.Errorf("status %d, %q", r.status, r.err)
	}
	for i, name := range []string{"one", "two", "three"} {
		if i < len(lines) && !strings.Contains(lines[i], name) {
			t.Errorf("line %d does not name %s: %q", i, name, lines[i])
		}
	}
	left, err := filepath.Glob(filepath.Join(s.Dir, "d/*/*"))
	if err != nil || len(left) != 3 {
		t.Errorf("left: %q, %v", left, err)
	}
}
