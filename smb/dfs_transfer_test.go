package smb_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
)

// killing calls kill once n bytes have passed through it.
type killing struct {
	n    int
	kill func()
}

func (k *killing) pass(n int) {
	if k.n > 0 && k.n <= n {
		k.kill()
	}
	k.n -= n
}

type killingWriter struct {
	bytes.Buffer
	killing
}

func (w *killingWriter) Write(p []byte) (int, error) {
	w.pass(len(p))
	return w.Buffer.Write(p)
}

type killingReader struct {
	r io.Reader
	killing
}

func (r *killingReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.pass(n)
	return n, err
}

// TestDFSFailoverInTransfer kills the target of a DFS link while a file is read from it, and while one is written to it. The other
// target's file of that name has other content: an open file does not move to it, so that no transfer is a mixture. What is opened
// afterwards is the other target's.
func TestDFSFailoverInTransfer(t *testing.T) {
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			t.Parallel()
			one, two := rigtest.Start(t, rig.Config{Mode: mode}), rigtest.Start(t, rig.Config{Mode: mode})
			space := rigtest.Start(t, rig.Config{
				Mode:   mode,
				Global: []string{"host msdfs = yes"},
				Shares: []string{"[space]\n  path = %DIR%/space\n  msdfs root = yes"},
			})
			must(t, os.Mkdir(filepath.Join(space.Dir, "space"), 0o755))
			must(t, os.Symlink(`msdfs:one\share,two\share`, filepath.Join(space.Dir, "space", "link")))
			const size = 16 << 20
			content := map[*rig.Server][]byte{one: random(size), two: random(size)}
			for srv, b := range content {
				must(t, os.WriteFile(filepath.Join(srv.Dir, "file"), b, 0o644))
			}
			n := &names{servers: map[string]*rig.Server{"space": space, "one": one, "two": two}, dialled: map[string]int{}}
			d := smb.Dialer{DialFunc: through(t, n.dial), Host: "space"}
			d.Limits.RedialTimeout = -1
			share, err := dial(t, space, d).Mount(t.Context(), "space")
			must(t, err)

			f, err := share.Open("link/file")
			must(t, err)
			defer f.Close()
			w := &killingWriter{killing: killing{n: size / 4, kill: one.Kill}}
			got, err := f.WriteTo(w)
			if !errors.Is(err, smb.ErrConnLost) && !errors.Is(err, smb.ErrHandleLost) || got != int64(w.Len()) {
				t.Errorf("reading: %d bytes, %v", got, err)
			}
			if !bytes.HasPrefix(content[one], w.Bytes()) {
				t.Error("the bytes before the loss are not those of the file that was open")
			}
			if b, err := share.ReadFile("link/file"); err != nil || !bytes.Equal(b, content[two]) {
				t.Errorf("read again: %d bytes, %v", len(b), err)
			}

			must(t, one.Start())
			to, err := share.Create("link/new") // on two, which stays in use
			must(t, err)
			defer to.Close()
			r := &killingReader{r: bytes.NewReader(content[one]), killing: killing{n: size / 4, kill: two.Kill}}
			put, err := to.ReadFrom(r)
			if !errors.Is(err, smb.ErrConnLost) && !errors.Is(err, smb.ErrHandleLost) || put == size {
				t.Errorf("writing: %d bytes, %v", put, err)
			}
			written, err := os.ReadFile(filepath.Join(two.Dir, "new"))
			if err != nil || int64(len(written)) < put || !bytes.Equal(written[:put], content[one][:put]) {
				t.Errorf("%d bytes were acknowledged, %d are there, %v", put, len(written), err)
			}
			if _, err := os.Stat(filepath.Join(one.Dir, "new")); !os.IsNotExist(err) {
				t.Errorf("the rest went to the other target: %v", err)
			}
			must(t, share.WriteFile("link/new", content[two], 0o666))
			if b, err := os.ReadFile(filepath.Join(one.Dir, "new")); err != nil || !bytes.Equal(b, content[two]) {
				t.Errorf("written again: %d bytes, %v", len(b), err)
			}
		})
	}
}
