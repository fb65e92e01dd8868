package h2http_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/internal/leftout"
	"github.com/tarn-go/tarn/tarntest"
)

// TestSourcesAreUsed: a long Write, and a file that is in memory, are copied and read when they are sent: that alone takes memory of more than
// 64 KiB at a time. A Source that supplied nothing would have memory taken twice. Nothing is copied or read before, unless a file's first
// bytes tell its type.
func TestSourcesAreUsed(t *testing.T) {
	faultnet.NeedsTCP(t, "what is copied depends on the kind of connection")
	const size = 1 << 20
	name, content := fileOf(t, size)
	for _, c := range []struct {
		name  string
		write func(w http.ResponseWriter, f *os.File) (int64, error)
		small uint64 // pieces of 64 KiB: what is copied or read before it is sent, and then the last one
	}{
		{"Write", func(w http.ResponseWriter, _ *os.File) (int64, error) {
			n, err := w.Write(content)
			return int64(n), err
		}, 0},
		{"file", func(w http.ResponseWriter, f *os.File) (int64, error) { return io.CopyN(w, f, size) }, 2},
		{"file of a known type and length", func(w http.ResponseWriter, f *os.File) (int64, error) {
			w.Header().Set("Content-Type", "application/octet-stream")
			w.Header().Set("Content-Length", fmt.Sprint(size))
			w.WriteHeader(http.StatusOK)
			return io.CopyN(w, f, size)
		}, 0},
		{"file after a short Write", func(w http.ResponseWriter, f *os.File) (int64, error) {
			w.Header().Set("Content-Length", fmt.Sprint(size))
			if _, err := w.Write(content[:100]); err != nil {
				return 0, err
			}
			if _, err := f.Seek(100, io.SeekStart); err != nil {
				return 0, err
			}
			n, err := io.CopyN(w, f, size-100)
			return n + 100, err
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := os.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if c.name != "Write" {
				if _, err := unix.Preadv2(int(f.Fd()), [][]byte{make([]byte, 1)}, 0, unix.RWF_NOWAIT); err != nil {
					leftout.Skip(t, fmt.Sprintf("the file system of %s cannot say what is in memory: %v", name, err))
				}
			}
			pool := tarntest.NewPool(t)
			url := serveWith(t, pool, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if n, err := c.write(w, f); n != size || err != nil {
					t.Errorf("%d bytes written: %v", n, err)
				}
			}))
			// net/http's client has a window of 4 MiB, so that windows do not bound the pieces.
			resp, err := (&http.Client{Transport: netHTTPTransport(t, new(clientSetup), false)}).Get(url)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if got, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(got, content) {
				t.Errorf("%d bytes: %v", len(got), err)
			}
			if got := resp.Header.Get("Content-Type"); got != "application/octet-stream" {
				t.Errorf("Content-Type %q", got)
			}
			long, small := uint64(0), uint64(0)
			for _, class := range pool.Stats().Classes {
				switch {
				case class.Size > 64<<10:
					long += class.Gets
				case class.Size == 64<<10:
					small += class.Gets
				}
			}
			if all := taken(pool); long == 0 || all >= 2*size {
				t.Errorf("%d pieces of more than 64 KiB, and memory for %d bytes in all", long, all)
			}
			if small != c.small {
				t.Errorf("%d pieces of 64 KiB, not %d", small, c.small)
			}
		})
	}
}

// TestFileOutOfMemory: a file that is not in memory is read by its handler, while the header has been sent alone.
func TestFileOutOfMemory(t *testing.T) {
	const size = 1 << 20
	name, content := fileOf(t, size)
	pool := tarntest.NewPool(t)
	url := serveWith(t, pool, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, err := os.Open(name)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		if err := f.Sync(); err != nil {
			t.Error(err)
		}
		if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Length", fmt.Sprint(size))
		w.WriteHeader(http.StatusOK)
		if n, err := io.CopyN(w, f, size); n != size || err != nil {
			t.Errorf("%d bytes copied: %v", n, err)
		}
	}))
	for range 3 {
		resp, err := (&http.Client{Transport: ownTransport(t, new(clientSetup))}).Get(url)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !bytes.Equal(got, content) || resp.Header.Get("Content-Type") != "text/plain" {
			t.Errorf("%d bytes, %v: %v", len(got), resp.Header, err)
		}
	}
}
