package smb

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
	"github.com/tarn-go/tarn/internal/leftout"
	"github.com/tarn-go/tarn/internal/rig"
	client "github.com/tarn-go/tarn/smb"
)

// smallDisk mounts a file system of 4 MiB on dir.
func smallDisk(t *testing.T, dir string) {
	t.Helper()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", dir).CombinedOutput(); err != nil {
		leftout.Skip(t, fmt.Sprintf("a file system cannot be mounted here: %v: %s", err, bytes.TrimSpace(out)))
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
}

// On a full disk, the server's or this machine's, a file without room leaves nothing, whether it is
// copied at once or in parts; the other files are complete.
func TestFullDisk(t *testing.T) {
	data := t.TempDir()
	const files, size = 100, 60 << 10
	content := strings.Repeat("x", size)
	many := map[string]string{}
	for i := range files {
		many[fmt.Sprintf("f%02d", i)] = content
	}
	write(t, filepath.Join(data, "many"), many)
	write(t, data, map[string]string{"large": strings.Repeat("0123456789abcdef", 8<<16)})
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			s := startServer(t, rig.Config{Mode: mode})
			must(t, "put", "-q", "-r", data, s.url("data"))
			here := t.TempDir()
			smallDisk(t, here)
			checkFull(t, here, "get", s.url("data"), here, "no space left")

			smallDisk(t, s.Dir) // over the share's directory
			if err := s.Own(s.Dir); err != nil {
				t.Fatal(err)
			}
			checkFull(t, s.Dir, "put", data, s.url(""), "the server's disk is full")
		})
	}
}

// checkFull copies more than there is room for to a directory that is dir on this machine's disk.
func checkFull(t *testing.T, dir, command, from, to, says string) {
	t.Helper()
	for _, name := range []string{"large", "many"} {
		r := run(t.Context(), command, "-q", "-r", from+"/"+name, strings.TrimSuffix(to, "/")+"/")
		if r.status != cli.Failed || !strings.Contains(r.err, says) {
			t.Errorf("%s %s: status %d, %q", command, name, r.status, r.err[:min(len(r.err), 300)])
		}
		if left := append(parts(t, dir), parts(t, filepath.Join(dir, "many"))...); len(left) != 0 {
			t.Errorf("%s %s left behind: %v", command, name, left)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "large")); err == nil {
		t.Errorf("%s: a part of the large file has its name", command)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "many"))
	if err != nil || len(entries) < 10 || len(entries) > 90 {
		t.Errorf("%s: %d files on a full disk, %v", command, len(entries), err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Size() != 60<<10 {
			t.Errorf("%s: %s has %d bytes, %v", command, e.Name(), info.Size(), err)
		}
	}
}

// TestReplaceOnFullDisk replaces a file, by one for which the disk, the server's or this machine's, has no room besides the temporary
// file: a longer one, one with holes, or one that has data where the file has a hole. The content of the file stays.
func TestReplaceOnFullDisk(t *testing.T) {
	const mib = 1 << 20
	dense := layout{5 * mib / 2, []client.Range{{Offset: 0, Length: 5 * mib / 2}}}
	old := layout{mib, []client.Range{{Offset: 0, Length: mib}}}
	for name, c := range map[string]struct{ before, after layout }{
		"longer":              {old, dense},
		"longer, with holes":  {old, layout{8 * mib, []client.Range{{Offset: mib / 2, Length: mib}, {Offset: 4 * mib, Length: 3 * mib / 2}}}},
		"shorter, with holes": {layout{3 * mib, []client.Range{{Offset: 5 * mib / 2, Length: mib / 2}}}, layout{3*mib - 1, dense.data}},
		"in a hole":           {layout{3 * mib, []client.Range{{Offset: 5 * mib / 2, Length: mib / 2}}}, dense},
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, rig.Config{})
			data, here := t.TempDir(), t.TempDir()
			source := filepath.Join(data, "new")
			c.after.write(t, source)
			must(t, "put", "-q", source, s.url("new"))
			c.before.write(t, filepath.Join(data, "old"))
			smallDisk(t, here)
			c.before.write(t, filepath.Join(here, "old"))
			checkReplaceFull(t, c.before, here, "get", s.url("new"), filepath.Join(here, "old"))
			smallDisk(t, s.Dir) // over the share's directory
			if err := s.Own(s.Dir); err != nil {
				t.Fatal(err)
			}
			must(t, "put", "-q", filepath.Join(data, "old"), s.url("old"))
			checkReplaceFull(t, c.before, s.Dir, "put", source, s.url("old"))
		})
	}
}

func checkReplaceFull(t *testing.T, before layout, dir, command, from, to string) {
	t.Helper()
	name := filepath.Join(dir, "old")
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	r := run(t.Context(), command, "-q", from, to)
	if r.status != cli.Failed {
		t.Errorf("%s: %+v", command, r)
	}
	if b, err := os.ReadFile(name); err != nil || !bytes.Equal(b, content) {
		t.Errorf("%s: the file that was there has %d bytes, %v; %s", command, len(b), err, r.err)
	}
	if err := before.onDisk(t, name); err != nil {
		t.Error(err)
	}
	if left := parts(t, dir); len(left) != 1 {
		t.Errorf("%s: temporary files: %v", command, left)
	}
}
