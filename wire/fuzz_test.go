package wire_test

import (
	"bytes"
	"io"
	"net"
	"testing"

	"github.com/tarn-go/tarn/tarntest"
	"github.com/tarn-go/tarn/wire"
)

// scripted is a connection that gives what it holds, at most step bytes a read.
type scripted struct {
	net.Conn
	in   *bytes.Reader
	step int
}

func (s *scripted) Read(p []byte) (int, error) {
	if s.step > 0 && len(p) > s.step {
		p = p[:s.step]
	}
	return s.in.Read(p)
}

// FuzzFrames reads length-prefixed frames from any input: each frame has the bytes of the input, and the
// error at the end is the right one.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{0, 0, 0, 3, 'a', 'b', 'c', 0, 0, 0, 0}, 0)
	f.Add([]byte{0, 0, 0x20, 0, 1, 2, 3}, 1)
	f.Add(append([]byte{0, 0, 0x20, 0}, make([]byte, 0x2000)...), 700)
	f.Add([]byte{1, 0, 0, 0}, 2)
	f.Fuzz(func(t *testing.T, in []byte, step int) {
		r := wire.NewReader(&scripted{in: bytes.NewReader(in), step: step}, tarntest.NewPool(t))
		defer r.Release()
		for rest := in; ; {
			n, err := readPrefix(r, 1<<20)
			if err != nil {
				if err == io.EOF && len(rest) > 0 || err == io.ErrUnexpectedEOF && len(rest) >= prefixLen {
					t.Fatalf("%v with %d bytes left", err, len(rest))
				}
				return
			}
			rest = rest[prefixLen:]
			b, err := r.Next(n)
			if err != nil {
				if err != io.ErrUnexpectedEOF || len(rest) >= n {
					t.Fatalf("%v with %d bytes left of %d", err, len(rest), n)
				}
				return
			}
			if !bytes.Equal(b.Bytes(), rest[:n]) {
				t.Fatal("the frame is not the one that was sent")
			}
			b.Free()
			rest = rest[n:]
		}
	})
}
