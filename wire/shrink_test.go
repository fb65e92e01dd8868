package wire_test

import (
	"testing"

	"github.com/tarn-go/tarn/tarntest"
	"github.com/tarn-go/tarn/wire"
)

// TestShrinkNext: receive buffers grow while reads fill them, and are small after ShrinkNext.
func TestShrinkNext(t *testing.T) {
	a, b := listenPair("tcp", "127.0.0.1:0")(t)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for p := make([]byte, 1<<20); ; {
			if _, err := a.Write(p); err != nil {
				return
			}
		}
	}()
	r := wire.NewReader(b, tarntest.NewPool(t))
	first := r.Size()
	for r.Size() < 4*first { // there is always more than fits
		if _, err := r.Peek(1); err != nil {
			t.Fatal(err)
		}
		r.NextBuffered(r.Buffered()).Free()
	}
	if r.ShrinkNext(); r.Size() != first {
		t.Errorf("the next buffer has %d bytes, not %d", r.Size(), first)
	}
	r.Release()
	b.Close()
	<-sent
}
