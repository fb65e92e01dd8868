package smb

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
)

// TestImpacket copies to and from impacket's server, which speaks dialect 2.0.2 and reports the time of a file's last change in listings,
// but not when the file is opened.
func TestImpacket(t *testing.T) {
	s := server{rigtest.StartImpacket(t)}
	t.Setenv("SMB_PASSWORD", s.Password)
	source := t.TempDir()
	files := map[string][]byte{
		"empty": nil, "small": []byte("content"), "sub/frame": bytes.Repeat([]byte("x"), wholeFile), "sub/deep/large": bytes.Repeat([]byte("content"), 100_000),
	}
	for name, data := range files {
		name = filepath.Join(source, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	same := func(dir string) {
		t.Helper()
		for name, want := range files {
			if got, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name))); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %d bytes, want %d, %v", name, len(got), len(want), err)
			}
		}
	}
	must(t, "put", "-r", source, s.url("put"))
	same(filepath.Join(s.Dir, "put"))
	target := t.TempDir()
	must(t, "get", "-r", s.url("put"), filepath.Join(target, "got"))
	same(filepath.Join(target, "got"))
	if out := must(t, "ls", s.url("put/sub")).out; !strings.Contains(out, "frame") {
		t.Errorf("%q", out)
	}
	if err := os.WriteFile(filepath.Join(s.Dir, "put", "small"), bytes.Repeat([]byte("longer"), 100), 0o644); err != nil {
		t.Fatal(err)
	}
	// The server ignores truncation.
	if r := run(t.Context(), "put", filepath.Join(source, "small"), s.url("put/small")); r.status != cli.Failed || !strings.Contains(r.err, errNotCut.Error()) {
		t.Errorf("%+v", r)
	}
	must(t, "rm", s.url("put/small"))
	must(t, "put", filepath.Join(source, "small"), s.url("put/small"))
	same(filepath.Join(s.Dir, "put"))
	must(t, "rm", "-r", s.url("put"))
	if left, err := os.ReadDir(s.Dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
