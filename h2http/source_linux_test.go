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
// 64 KiB at a time. A Source that supplied nothing would have memory taken twice.
func TestSourcesAreUsed(t *testing.T) {
	faultnet.NeedsTCP(t, "what is copied depends on the kind of connection")
	const size = 1 << 20
	name, content := fileOf(t, size)
	for _, c := range []struct {
		name  string
		write func(w http.ResponseWriter, f *os.File) (int64, error)
	}{
		{"Write", func(w http.ResponseWriter, _ *os.File) (int64, error) {
			n, err := w.Write(content)
			return int64(n), err
		}},
		{"file", func(w http.ResponseWriter, f *os.File) (int64, error) { return io.CopyN(w, f, size) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := os.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if c.name == "file" {
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
			resp, err := (&http.Client{Transport: ownTransport(t, new(clientSetup))}).Get(url)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if got, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(got, content) {
				t.Errorf("%d bytes: %v", len(got), err)
			}
			long := uint64(0)
			for _, class := range pool.Stats().Classes {
				if class.Size > 64<<10 {
					long += class.Gets
				}
			}
			if all := taken(pool); long == 0 || all >= 2*size {
				t.Errorf("%d pieces of more than 64 KiB, and memory for %d bytes in all", long, all)
			}
		})
	}
}
