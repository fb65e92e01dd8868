package adapt

import (
	"bytes"
	"testing"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
)

func TestArrowAllocate(t *testing.T) {
	a := Arrow(tarntest.NewPool(t))
	for range 3 { // from the second time on, in memory that was used before
		for _, n := range []int{0, 1, 63, 64, 100, 4096, 5000, 1 << 20} {
			b := a.Allocate(n)
			if b == nil || len(b) != n {
				t.Errorf("Allocate(%d) has %d bytes", n, len(b))
			}
			if !bytes.Equal(b, make([]byte, n)) {
				t.Errorf("Allocate(%d) is not zeroed", n)
			}
			if addr := firstByte(b); addr%arrowAlign != 0 {
				t.Errorf("Allocate(%d) is at %#x", n, addr)
			}
			fill(b, 200)
			a.Free(b)
		}
	}
}

// TestArrowAlignsOddSlabs uses classes that no power of two divides.
func TestArrowAlignsOddSlabs(t *testing.T) {
	p, err := tarn.NewPool(tarn.PoolConfig{Classes: []int{72, 200, 1000}, Check: tarn.CheckAll})
	if err != nil {
		t.Fatal(err)
	}
	a := Arrow(p)
	var held [][]byte
	for i := range 200 {
		b := a.Allocate(1 + i)
		if addr := firstByte(b); addr%arrowAlign != 0 {
			t.Fatalf("Allocate(%d) is at %#x", 1+i, addr)
		}
		fill(b, byte(i))
		held = append(held, b)
	}
	for i, b := range held {
		check(t, b, byte(i))
		a.Free(b)
	}
	if s := p.Stats(); s.InUseBuffers != 0 || s.Refused != 0 {
		t.Errorf("%d out, %d refused", s.InUseBuffers, s.Refused)
	}
}

func TestArrowReallocate(t *testing.T) {
	a := Arrow(tarntest.NewPool(t))
	b := a.Allocate(0)
	for _, n := range []int{10, 10, 5000, 4999, 3000, 5000, 100, 0, 64, 1 << 20, 1 << 19, 1, 0} {
		old := append([]byte(nil), b...)
		b = a.Reallocate(n, b)
		if len(b) != n {
			t.Fatalf("Reallocate(%d) has %d bytes", n, len(b))
		}
		keep := min(n, len(old))
		if !bytes.Equal(b[:keep], old[:keep]) {
			t.Fatalf("Reallocate(%d) from %d lost contents", n, len(old))
		}
		if !bytes.Equal(b[keep:], make([]byte, n-keep)) {
			t.Fatalf("Reallocate(%d) from %d is not zero beyond them", n, len(old))
		}
		fill(b, byte(n))
	}
	a.Free(b)
}

func TestArrowRefusesForeign(t *testing.T) {
	a := Arrow(refusals(t, 5))
	a.Free(nil)
	a.Free([]byte{})
	a.Free(make([]byte, 64))
	b := a.Allocate(4096)
	a.Free(b[64:])
	c := a.Reallocate(100, []byte("foreign"))
	if string(c[:7]) != "foreign" {
		t.Error("Reallocate of foreign memory lost its contents")
	}
	d := a.Reallocate(4, []byte("foreign")) // would fit where it is, but is not ours to keep
	if string(d) != "fore" {
		t.Error("Reallocate of foreign memory lost its contents")
	}
	a.Free(c)
	a.Free(d)
	a.Free(b[:10])
	a.Free(b)
}

func TestArrowConcurrently(t *testing.T) {
	a := Arrow(tarntest.NewPool(t))
	hammer(t, func(n int) func(*testing.T, byte) {
		b := a.Allocate(n)
		return func(t *testing.T, seed byte) {
			if t == nil {
				fill(b, seed)
				return
			}
			check(t, b, seed)
			b = a.Reallocate(n+n/2, b)
			check(t, b[:n], seed)
			a.Free(b)
		}
	})
}

func TestArrowAllocatesNothing(t *testing.T) {
	a := Arrow(steadyPool(t))
	noAllocs(t, func() { a.Free(a.Reallocate(6000, a.Allocate(4096))) })
}
