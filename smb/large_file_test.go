package smb_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
)

// TestBeyond4GiB writes, reads, copies and cuts a sparse file at lengths that need more than 32 bits, and lists
// it; the server's disk has the same bytes.
func TestBeyond4GiB(t *testing.T) {
	const edge = int64(4) << 30
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			srv := rigtest.Start(t, rig.Config{Mode: mode})
			share := mount(t, srv, smb.Dialer{})
			f, err := share.Create("large")
			must(t, err)
			want := random(3 << 20)
			at := edge - 1<<20 - 7 // the bytes cross 4 GiB
			if n, err := f.WriteAt(want, at); n != len(want) || err != nil {
				t.Fatal(n, err)
			}
			end := at + int64(len(want))
			got := make([]byte, len(want))
			if n, err := f.ReadAt(got, at); n != len(got) || err != nil && err != io.EOF || !bytes.Equal(got, want) {
				t.Errorf("ReadAt: %d, %v", n, err)
			}
			if n, err := f.ReadAt(got, end); n != 0 || err != io.EOF {
				t.Errorf("ReadAt at the end: %d, %v", n, err)
			}
			if pos, err := f.Seek(int64(-len(want)), io.SeekEnd); pos != at || err != nil {
				t.Errorf("Seek: %d, %v", pos, err)
			}
			var rest bytes.Buffer
			if n, err := f.WriteTo(&rest); n != int64(len(want)) || err != nil || !bytes.Equal(rest.Bytes(), want) {
				t.Errorf("WriteTo: %d, %v", n, err)
			}
			disk, err := os.Open(filepath.Join(srv.Dir, "large"))
			must(t, err)
			defer disk.Close()
			if _, err := disk.ReadAt(got, at); err != nil || !bytes.Equal(got, want) {
				t.Errorf("on the disk: %v", err)
			}
			must(t, f.Truncate(edge+5))
			for what, size := range map[string]func() (int64, error){
				"File.Stat":  func() (int64, error) { fi, err := f.Stat(); must(t, err); return fi.Size(), nil },
				"Share.Stat": func() (int64, error) { fi, err := share.Stat("large"); must(t, err); return fi.Size(), nil },
				"ReadDir": func() (int64, error) {
					list, err := share.ReadDir(".")
					must(t, err)
					fi, err := list[0].Info()
					return fi.Size(), err
				},
				"Seek": func() (int64, error) { return f.Seek(0, io.SeekEnd) },
			} {
				if n, err := size(); n != edge+5 || err != nil {
					t.Errorf("%s: %d, %v", what, n, err)
				}
			}
			if n, err := f.ReadAt(got, edge-1); n != 6 || err != io.EOF || !bytes.Equal(got[:6], want[1<<20+6:][:6]) {
				t.Errorf("ReadAt of what is left: %d, %v", n, err)
			}
			must(t, f.Close())
		})
	}
}

// TestWritersOfOneFile has goroutines of two sessions write parts of one file at the same time, each part through
// whichever method, and reads the whole of it back.
func TestWritersOfOneFile(t *testing.T) {
	const writers, part = 8, 2<<20 + 4321
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			srv := rigtest.Start(t, rig.Config{Mode: mode})
			shares := []*smb.Share{mount(t, srv, smb.Dialer{}), mount(t, srv, smb.Dialer{})}
			must(t, shares[0].WriteFile("shared", nil, 0o666))
			want := random(writers * part)
			var wg sync.WaitGroup
			for i := range writers {
				mine := want[i*part : (i+1)*part]
				wg.Go(func() {
					f, err := shares[i%2].OpenFile("shared", os.O_WRONLY, 0)
					if err != nil {
						t.Error(err)
						return
					}
					if err := writePart(f, mine, int64(i)*part, i/2%2 == 0); err != nil {
						t.Error(err)
					}
					if err := f.Close(); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			for _, share := range shares {
				if got, err := share.ReadFile("shared"); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%d bytes, %v", len(got), err)
				}
			}
		})
	}
}

// writePart writes b at off: in pieces of odd lengths, or as a stream.
func writePart(f *smb.File, b []byte, off int64, pieces bool) error {
	if !pieces {
		if _, err := f.Seek(off, io.SeekStart); err != nil {
			return err
		}
		n, err := f.ReadFrom(bytes.NewReader(b))
		if err == nil && n < int64(len(b)) {
			err = fmt.Errorf("%d of %d bytes", n, len(b))
		}
		return err
	}
	for done := 0; done < len(b); {
		n, err := f.WriteAt(b[done:min(len(b), done+300_001)], off+int64(done))
		if err != nil {
			return err
		}
		done += n
	}
	return nil
}
