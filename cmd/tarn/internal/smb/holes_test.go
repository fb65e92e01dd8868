//go:build unix

package smb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tarn-go/tarn/internal/leftout"
	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	client "github.com/tarn-go/tarn/smb"
)

const page = 4 << 10

// layout is a file with holes.
type layout struct {
	size int64
	data []client.Range
}

// layouts are files with holes: in all places, of one page, and none.
func layouts() map[string]layout {
	var pages []client.Range
	for i := range int64(600) {
		pages = append(pages, client.Range{Offset: 2 * i * page, Length: page})
	}
	return map[string]layout{
		"page":     {8 << 20, []client.Range{{Offset: 4 << 20, Length: page}}},
		"hole":     {4 << 20, nil},
		"end":      {4<<20 + 123, []client.Range{{Offset: 0, Length: 1 << 20}}},
		"start":    {4<<20 + 123, []client.Range{{Offset: 3 << 20, Length: 1<<20 + 123}}},
		"pages":    {1200*page + 55, pages},
		"data":     {3<<20 + 1, []client.Range{{Offset: 0, Length: 3<<20 + 1}}},
		"two ends": {4 << 20, []client.Range{{Offset: 0, Length: 1 << 20}, {Offset: 3 << 20, Length: 1 << 20}}},
	}
}

// write makes the file on the local disk. The test is left out if that has no holes.
func (l layout) write(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.NewChaCha8([32]byte{1})
	for _, r := range l.data {
		b := make([]byte, r.Length)
		random.Read(b)
		if _, err := f.WriteAt(b, r.Offset); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(f.Truncate(l.size), f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
	if l.onDisk(t, name) != nil {
		leftout.Skip(t, fmt.Sprintf("the file system of %s keeps no holes of %d bytes", filepath.Dir(name), page))
	}
}

// onDisk returns an error if the file occupies more of its disk than its data.
func (l layout) onDisk(t *testing.T, name string) error {
	t.Helper()
	most := int64(64 << 10) // for the file system's own blocks
	for _, r := range l.data {
		most += r.Length
	}
	if n := onDiskBytes(t, name); n > most {
		return fmt.Errorf("%s has %d bytes on the disk, its data %d", name, n, most)
	}
	return nil
}

// sameHoles fails unless the copy has the bytes of the original and the holes of the layout.
func (l layout) sameHoles(t *testing.T, original, copied string) {
	t.Helper()
	sameBytes(t, original, copied)
	if err := l.onDisk(t, copied); err != nil {
		t.Error(err)
	}
}

func sameBytes(t *testing.T, original, copied string) {
	t.Helper()
	want, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(copied); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s differs from %s: %v", copied, original, err)
	}
}

// writeLayouts makes a file of each layout in a new directory.
func writeLayouts(t *testing.T) (dir string, total int64) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "holes")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, l := range layouts() {
		l.write(t, filepath.Join(dir, name))
		total += l.size
	}
	return dir, total
}

// TestHoles copies files with holes to a server and back: the copies have the same bytes and the same holes, and count as all of
// their bytes.
func TestHoles(t *testing.T) {
	src, total := writeLayouts(t)
	eachMode(t, func(t *testing.T, s server) {
		there, back := filepath.Join(s.Dir, "there"), filepath.Join(t.TempDir(), "back")
		for _, c := range []struct {
			args []string
			dir  string // of the copies
		}{
			{[]string{"put", "-r", "-T", src, s.url("there")}, there},
			{[]string{"get", "-r", "-T", s.url("there"), back}, back},
			{[]string{"get", "-r", "-T", "-anew", s.url("there"), back}, back},
			{[]string{"put", "-r", "-T", "-anew", src, s.url("there")}, there},
		} {
			r := must(t, c.args...)
			if want := fmt.Sprintf("copied %d of %[1]d files, %s in", len(layouts()), size(total)); !strings.Contains(r.err, want) {
				t.Errorf("%v: no %q in %q", c.args, want, r.err)
			}
			for name, l := range layouts() {
				l.sameHoles(t, filepath.Join(src, name), filepath.Join(c.dir, name))
			}
			again := must(t, append(c.args[:1:1], without(c.args[1:], "-anew")...)...)
			if !strings.Contains(again.err, fmt.Sprintf("(%d already there), 0 B", len(layouts()))) {
				t.Errorf("%v again: %q", c.args, again.err)
			}
		}
		r := must(t, "get", "-json", s.url("there/page"), filepath.Join(t.TempDir(), "page"))
		if !strings.Contains(r.out, `"bytes":8388608`) {
			t.Errorf("JSON: %s", r.out)
		}
	})
}

func without(list []string, word string) (out []string) {
	for _, s := range list {
		if s != word {
			out = append(out, s)
		}
	}
	return out
}

// TestHolesAreNotSent counts requests: of a file of 8 MiB with 4 KiB of data, one WRITE and one READ. Files without holes take
// no request for holes.
func TestHolesAreNotSent(t *testing.T) {
	dir := t.TempDir()
	name, plain := filepath.Join(dir, "page"), filepath.Join(dir, "plain")
	layouts()["page"].write(t, name)
	layouts()["data"].write(t, plain)
	s := startServer(t, rig.Config{})
	r := startRelay(t, s.Addr)
	s.Addr = r.addr
	for _, c := range []struct {
		command               string
		from, to              string
		reads, writes, ioctls int
	}{
		{"put", name, s.url("page"), 0, 1, 2},
		{"get", s.url("page"), name + "2", 1, 0, 1},
		{"put", plain, s.url("plain"), 0, 7, 0},
		{"get", s.url("plain"), plain + "2", 7, 0, 0},
	} {
		must(t, c.command, c.from, c.to)
		_, sent := r.take()
		if sent[commandRead] != c.reads || sent[commandWrite] != c.writes || sent[commandIoctl] != c.ioctls {
			t.Errorf("%s %s: requests by their commands: %v", c.command, c.from, sent)
		}
	}
}

// TestHolesRefused copies to and from a server that refuses one of the requests for holes: everything is copied. Samba does not
// refuse them, so the relay replaces their control codes by one that Samba does not know.
func TestHolesRefused(t *testing.T) {
	src, _ := writeLayouts(t)
	s := startServer(t, rig.Config{})
	must(t, "put", "-r", src, s.url("there"))
	for name, refused := range map[string]uint32{"SET_SPARSE": 0x000900c4, "QUERY_ALLOCATED_RANGES": 0x000940cf} { // MS-FSCC 2.3
		t.Run(name, func(t *testing.T) {
			seen := 0
			r := startRelay(t, s.Addr, func(message []byte) {
				if binary.LittleEndian.Uint16(message[12:]) == commandIoctl && binary.LittleEndian.Uint32(message[68:]) == refused {
					binary.LittleEndian.PutUint32(message[68:], 0x00140ffc)
					seen++
				}
			})
			through := s
			server := *s.Server
			server.Addr = r.addr
			through.Server = &server
			back := filepath.Join(t.TempDir(), "back")
			must(t, "put", "-r", src, through.url(name))
			must(t, "get", "-r", through.url("there"), back)
			sameTree(t, src, filepath.Join(s.Dir, name))
			sameTree(t, src, back)
			r.take() // orders what the relay has counted before the next line
			if seen == 0 {
				t.Error("the request was not sent")
			}
		})
	}
}

// TestHolesImpacket copies to and from impacket's server, which refuses control codes and drops what is written behind the end of a file.
func TestHolesImpacket(t *testing.T) {
	src, _ := writeLayouts(t)
	s := server{rigtest.StartImpacket(t)}
	t.Setenv("SMB_PASSWORD", s.Password)
	back := filepath.Join(t.TempDir(), "back")
	must(t, "put", "-r", src, s.url("there"))
	sameTree(t, src, filepath.Join(s.Dir, "there"))
	must(t, "get", "-r", s.url("there"), back)
	sameTree(t, src, back)
}

// TestHolesChangeWhileCopied changes a file after its holes were listed, at places that were holes, or makes holes. The copy
// is refused, and succeeds when it is repeated.
func TestHolesChangeWhileCopied(t *testing.T) {
	eachMode(t, func(t *testing.T, s server) {
		dir := t.TempDir()
		local := filepath.Join(dir, "local")
		for what, change := range map[string]func(t *testing.T, name string){
			"filled": overwrite,
			"written again": func(t *testing.T, name string) {
				info, err := os.Stat(name)
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(os.Truncate(name, 100), os.Truncate(name, info.Size())); err != nil {
					t.Fatal(err)
				}
				overwrite(t, name)
			},
		} {
			for name := range layouts() {
				if name == "data" {
					continue
				}
				layouts()[name].write(t, local)
				remote := filepath.Join(s.Dir, "remote")
				os.Remove(remote)
				said, err := copyWhile(t, local, s.url("remote"), func() { change(t, local) })
				if !errors.Is(err, errReported) || !strings.Contains(said, "changed while it was being copied") {
					t.Errorf("put %s, %s: %v: %s", name, what, err, said)
				}
				if _, err := os.Stat(remote); !errors.Is(err, fs.ErrNotExist) || len(parts(t, s.Dir)) != 0 {
					t.Errorf("put %s, %s: %v, left behind: %v", name, what, err, parts(t, s.Dir))
				}
				must(t, "put", local, s.url("remote"))
				sameBytes(t, local, remote)

				target := filepath.Join(dir, "target")
				os.Remove(target)
				said, err = copyWhile(t, s.url("remote"), target, func() { change(t, remote) })
				if !errors.Is(err, errReported) || !strings.Contains(said, "changed while it was being copied") {
					t.Errorf("get %s, %s: %v: %s", name, what, err, said)
				}
				if _, err := os.Stat(target); !errors.Is(err, fs.ErrNotExist) || len(parts(t, dir)) != 0 {
					t.Errorf("get %s, %s: %v, left behind: %v", name, what, err, parts(t, dir))
				}
				must(t, "get", s.url("remote"), target)
				sameBytes(t, remote, target)
			}
		}
	})
}

// TestHolesResume interrupts copies of files with holes at several places, and repeats them. The copies have all holes, also if
// the rest has none.
func TestHolesResume(t *testing.T) {
	many := layout{size: 64 << 20}
	for i := range int64(14) {
		many.data = append(many.data, client.Range{Offset: 2<<20 + i*(4<<20), Length: 2 << 20})
	}
	first := layout{size: 64 << 20, data: []client.Range{{Offset: 20 << 20, Length: 44 << 20}}}
	src := t.TempDir()
	many.write(t, filepath.Join(src, "many"))
	first.write(t, filepath.Join(src, "first"))
	eachMode(t, func(t *testing.T, s server) {
		for _, c := range []struct {
			layout
			name  string
			after int64 // bytes, holes first
		}{
			{many, "many", 37 << 20}, {many, "many", 45 << 20}, {many, "many", 55 << 20}, {many, "many", 62 << 20},
			{first, "first", 25 << 20}, {first, "first", 60 << 20},
		} {
			original, there := filepath.Join(src, c.name), fmt.Sprintf("%s-%d", c.name, c.after)
			interrupt(t, original, s.url(there), c.after)
			if len(parts(t, s.Dir)) != 1 {
				t.Errorf("%s: parts on the server: %v", there, parts(t, s.Dir))
			}
			must(t, "put", original, s.url(there))
			c.sameHoles(t, original, filepath.Join(s.Dir, there))
			dir := t.TempDir()
			back := filepath.Join(dir, "back")
			interrupt(t, s.url(there), back, c.after)
			if len(parts(t, dir)) != 1 {
				t.Errorf("%s: parts: %v", there, parts(t, dir))
			}
			must(t, "get", s.url(there), back)
			c.sameHoles(t, original, back)
			if left := append(parts(t, dir), parts(t, s.Dir)...); len(left) != 0 {
				t.Errorf("%s: left behind: %v", there, left)
			}
		}
	})
}

// onDiskBytes is how many bytes of a disk a file occupies.
func onDiskBytes(t *testing.T, name string) int64 {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Blocks * 512
}
