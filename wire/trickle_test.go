package wire

import (
	"bytes"
	"net"
	"testing"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/tarntest"
)

// TestTrickle: a peer that sends byte by byte, or in small pieces, does not make the
// Reader take a buffer for each piece.
func TestTrickle(t *testing.T) {
	for _, k := range faultnet.Kinds {
		for _, piece := range []int{1, 100} {
			for _, n := range []int{1000, 32 << 10, MaxPeek} {
				t.Run(k.String(), func(t *testing.T) {
					l := faultnet.New(t, k)
					pool := tarntest.NewPool(t)
					r := NewReader(l.Server, pool)
					defer r.Release()
					want := bytes.Repeat([]byte("0123456789"), n/10+1)[:n]
					got := make(chan error, 1)
					go func() { got <- writePieces(l.Client, want, piece) }()
					p, err := r.Peek(n)
					if err != nil || !bytes.Equal(p, want) {
						t.Fatalf("%d bytes, %v", len(p), err)
					}
					if err := <-got; err != nil {
						t.Error(err)
					}
					var gets uint64
					for _, c := range pool.Stats().Classes {
						gets += uint64(c.Gets)
					}
					// On a plain socket an empty buffer is returned to the pool while the
					// Reader waits, which happens once here.
					if gets > 4 {
						t.Errorf("%d buffers for %d bytes in pieces of %d", gets, n, piece)
					}
				})
			}
		}
	}
}

func writePieces(c net.Conn, p []byte, n int) error {
	for len(p) > 0 {
		m := min(n, len(p))
		if _, err := c.Write(p[:m]); err != nil {
			return err
		}
		p = p[m:]
	}
	return nil
}
