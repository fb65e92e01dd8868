package smb_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
)

// suite has to pass on every server. Results are compared with the server's disk.
func suite(t *testing.T, srv *rig.Server, share *smb.Share) {
	for _, step := range []struct {
		name string
		run  func(*testing.T, *rig.Server, *smb.Share)
	}{
		{"write and read", suiteData}, {"sequential", suiteSequential}, {"at the end", suiteEnd},
		{"concurrent", suiteConcurrent}, {"names", suiteNames}, {"directories", suiteDirs},
		{"rename", suiteRename}, {"attributes", suiteAttributes}, {"errors", suiteErrors},
		{"copy", suiteCopy}, {"locks", suiteLocks}, {"watch", suiteWatch}, {"fs", suiteFS},
		{"shares", suiteShares}, {"cancel", suiteCancel}, {"security", suiteSecurity},
	} {
		t.Run(step.name, func(t *testing.T) { step.run(t, srv, share) })
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func onDisk(t testing.TB, srv *rig.Server, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(srv.Dir, filepath.FromSlash(name)))
	must(t, err)
	return b
}

func suiteData(t *testing.T, srv *rig.Server, share *smb.Share) {
	for _, size := range []int{0, 1, 100, 4096, 65536, 65537, 1 << 20, 3<<20 + 13} {
		want := random(size)
		f, err := share.Create("data.bin")
		must(t, err)
		if n, err := f.WriteAt(want, 0); n != size || err != nil {
			t.Fatalf("WriteAt of %d: %d, %v", size, n, err)
		}
		must(t, f.Sync())
		if !bytes.Equal(onDisk(t, srv, "data.bin"), want) {
			t.Fatalf("%d bytes: the disk has other content", size)
		}
		got := make([]byte, size)
		if n, err := f.ReadAt(got, 0); n != size || err != nil {
			t.Fatalf("ReadAt of %d: %d, %v", size, n, err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("%d bytes: read other content", size)
		}
		if size > 10 {
			b, err := f.ReadBuffer(context.Background(), 7, size)
			must(t, err)
			if !bytes.Equal(b.Bytes(), want[7:7+b.Len()]) {
				t.Fatalf("%d bytes: ReadBuffer returned other content", size)
			}
			b.Free()
		}
		must(t, f.Close())
	}
}

func suiteSequential(t *testing.T, srv *rig.Server, share *smb.Share) {
	want := random(5<<20 + 3)
	f, err := share.Create("seq.bin")
	must(t, err)
	if n, err := f.ReadFrom(bytes.NewReader(want)); n != int64(len(want)) || err != nil {
		t.Fatal(n, err)
	}
	if !bytes.Equal(onDisk(t, srv, "seq.bin"), want) {
		t.Fatal("the disk has other content")
	}
	for _, piece := range []int{1000, 64 << 10, 1 << 20} {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		buf := make([]byte, piece)
		for {
			n, err := f.Read(buf)
			got.Write(buf[:n])
			if err == io.EOF {
				break
			}
			must(t, err)
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Fatalf("pieces of %d: read other content (%d bytes)", piece, got.Len())
		}
	}
	if at, err := f.Seek(-10, io.SeekEnd); at != int64(len(want)-10) || err != nil {
		t.Fatal(at, err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	if n, err := f.WriteTo(&all); n != int64(len(want)) || err != nil || !bytes.Equal(all.Bytes(), want) {
		t.Fatal("WriteTo", n, err)
	}
	must(t, f.Truncate(100))
	must(t, f.Close())
	f, err = share.OpenFile("seq.bin", os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	_, err = f.WriteString("the end")
	must(t, err)
	must(t, f.Close())
	if got := onDisk(t, srv, "seq.bin"); string(got) != string(want[:100])+"the end" {
		t.Fatalf("appended: %d bytes", len(got))
	}
}

// suiteEnd: a ReadAt that returns fewer bytes returns an error, too (defect 5 of other clients).
func suiteEnd(t *testing.T, srv *rig.Server, share *smb.Share) {
	must(t, share.WriteFile("end.bin", make([]byte, 1000), 0o666))
	f, err := share.Open("end.bin")
	must(t, err)
	defer f.Close()
	for _, c := range []struct{ off, n, want int }{{0, 1001, 1000}, {999, 2, 1}, {1000, 1, 0}, {5000, 10, 0}, {0, 3 << 20, 1000}} {
		n, err := f.ReadAt(make([]byte, c.n), int64(c.off))
		if n != c.want || err != io.EOF {
			t.Errorf("ReadAt(%d bytes, %d) = %d, %v", c.n, c.off, n, err)
		}
	}
	if n, err := f.ReadAt(make([]byte, 1000), 0); n != 1000 || err != nil {
		t.Errorf("the whole file: %d, %v", n, err)
	}
}

func suiteConcurrent(t *testing.T, srv *rig.Server, share *smb.Share) {
	want := random(4 << 20)
	must(t, share.WriteFile("many.bin", want, 0o666))
	f, err := share.Open("many.bin")
	must(t, err)
	defer f.Close()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			got := make([]byte, 200_000)
			for i := range 10 {
				off := (g*777_777 + i*333_333) % (len(want) - len(got))
				if n, err := f.ReadAt(got, int64(off)); n != len(got) || err != nil || !bytes.Equal(got, want[off:off+n]) {
					t.Error("ReadAt", off, n, err)
					return
				}
				if _, err := share.Stat("many.bin"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func suiteNames(t *testing.T, srv *rig.Server, share *smb.Share) {
	long := strings.Repeat("n", 200)
	for _, name := range []string{"plain.txt", "ünïcödé — 文字.txt", "emoji 🦫.txt", long, "with space", "UPPER"} {
		must(t, share.WriteFile(name, []byte(name), 0o666))
		if got := onDisk(t, srv, name); string(got) != name {
			t.Errorf("%q: %q", name, got)
		}
		b, err := share.ReadFile(name)
		if err != nil || string(b) != name {
			t.Errorf("%q: %q, %v", name, b, err)
		}
		must(t, share.Remove(name))
	}
	for _, name := range []string{"a\x00b", "que?", "st*r", "pi|pe", "co:lon", "..", "a/../../b", "\xff", strings.Repeat("n", 300)} {
		if _, err := share.Open(name); !errors.Is(err, smb.ErrName) || !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("Open(%q): %v", name, err)
		}
	}
}

func suiteDirs(t *testing.T, srv *rig.Server, share *smb.Share) {
	must(t, share.MkdirAll("tree/a/b/c", 0o777))
	must(t, share.MkdirAll(`tree\a\b\c`, 0o777))
	if err := share.Mkdir("tree", 0o777); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	const many = 150
	for i := range many {
		name := filepath.Join(srv.Dir, "tree", "a", "file-with-a-rather-long-name-"+strings.Repeat("x", i%90)+string(rune('a'+i%26))+time.Duration(i).String())
		must(t, os.WriteFile(name, nil, 0o666))
	}
	list, err := share.ReadDir("tree/a")
	must(t, err)
	if len(list) != many+1 || !slices.IsSortedFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) }) {
		t.Errorf("%d entries", len(list))
	}
	n := 0
	for _, err := range share.Entries("tree/a") {
		must(t, err)
		if n++; n == 10 {
			break
		}
	}
	var walked []string
	must(t, share.WalkDir("tree", func(name string, d fs.DirEntry, err error) error {
		if d.IsDir() {
			walked = append(walked, name)
		}
		return err
	}))
	if want := []string{"tree", "tree/a", "tree/a/b", "tree/a/b/c"}; !slices.Equal(walked, want) {
		t.Errorf("walked %v", walked)
	}
	if got, err := share.Glob("tree/*/b"); err != nil || !slices.Equal(got, []string{"tree/a/b"}) {
		t.Errorf("glob: %v, %v", got, err)
	}
	d, err := share.Open("tree/a")
	must(t, err)
	total := 0
	for {
		part, err := d.ReadDir(100)
		total += len(part)
		if err == io.EOF {
			break
		}
		must(t, err)
	}
	if total != many+1 {
		t.Errorf("ReadDir(100): %d entries in all", total)
	}
	must(t, d.Close())
	if err := share.Remove("tree"); err == nil {
		t.Error("removed a directory that is not empty")
	}
	// Files on the server's disk have another owner: let the server's user remove them.
	must(t, os.Chmod(filepath.Join(srv.Dir, "tree", "a"), 0o777))
	must(t, share.RemoveAll("tree"))
	must(t, share.RemoveAll("tree"))
	if _, err := os.Stat(filepath.Join(srv.Dir, "tree")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("still there:", err)
	}
}

// TestHugeDirectory lists a directory of many replies, and stops in the middle of another listing.
func TestHugeDirectory(t *testing.T) {
	srv := rigtest.Start(t, rig.Config{})
	share := mount(t, srv, smb.Dialer{Limits: smb.Limits{MaxTransact: 64 << 10}})
	const many = 2000
	for i := range many {
		must(t, os.WriteFile(filepath.Join(srv.Dir, strings.Repeat("long", 20)+time.Duration(i).String()), nil, 0o666))
	}
	list, err := share.ReadDir("")
	if err != nil || len(list) != many {
		t.Errorf("%d entries, %v", len(list), err)
	}
	n := 0
	for _, err := range share.Entries(".") {
		must(t, err)
		if n++; n == 1000 {
			break
		}
	}
	must(t, share.Session().Echo(t.Context()))
}
