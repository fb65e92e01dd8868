package adapt

import (
	"runtime"
	"testing"
	"time"

	"github.com/tarn-go/tarn/tarntest"
)

func TestGRPCGetPut(t *testing.T) {
	g := GRPC(tarntest.NewPool(t))
	for _, n := range []int{0, 1, 256, 1024, 1025, 16<<10 + 9, 1 << 20, 40 << 20} {
		p := g.Get(n)
		if len(*p) != n {
			t.Errorf("Get(%d) has %d bytes", n, len(*p))
		}
		if cap(*p) <= grpcThreshold {
			t.Errorf("Get(%d) has room for %d: grpc-go would not put it back", n, cap(*p))
		}
		fill(*p, 7)
		g.Put(p)
		if *p != nil {
			t.Errorf("Get(%d): the slice can still be reached after Put", n)
		}
	}
}

// TestGRPCHolderMayChangeTheSlice: grpc-go keeps the pointer and reslices what it points at.
func TestGRPCHolderMayChangeTheSlice(t *testing.T) {
	g := GRPC(tarntest.NewPool(t))
	for _, change := range []func([]byte) []byte{
		func(b []byte) []byte { return b[:1] },
		func(b []byte) []byte { return b[:cap(b)] },
		func(b []byte) []byte { return b[100:200] },
		func(b []byte) []byte { return append(b, make([]byte, 1<<20)...) },
		func([]byte) []byte { return nil },
	} {
		p := g.Get(2000)
		*p = change(*p)
		g.Put(p)
	}
}

func TestGRPCRefusesForeign(t *testing.T) {
	p := refusals(t, 4)
	g, other := GRPC(p), GRPC(tarntest.NewPool(t))
	foreign := make([]byte, 4096)
	g.Put(&foreign)
	if foreign == nil {
		t.Error("a slice that was refused was taken away from the caller")
	}
	own := g.Get(4096)
	same := *own
	g.Put(&same) // the memory, but not the pointer
	interior := same[8:]
	g.Put(&interior)
	theirs := other.Get(4096)
	g.Put(theirs)
	other.Put(theirs)
	g.Put(own)
	g.Put(nil)
}

func TestGRPCRefusesDoublePut(t *testing.T) {
	g := GRPC(refusals(t, 2))
	p := g.Get(4096)
	q := g.Get(4096)
	g.Put(p)
	g.Put(p)
	g.Put(q)
	g.Put(q)
	a, b := g.Get(4096), g.Get(4096)
	if a == b || &(*a)[0] == &(*b)[0] {
		t.Fatal("one piece of memory has two holders")
	}
	g.Put(a)
	g.Put(b)
}

func TestGRPCConcurrently(t *testing.T) {
	g := GRPC(tarntest.NewPool(t))
	hammer(t, func(n int) func(*testing.T, byte) {
		p := g.Get(n)
		return func(t *testing.T, seed byte) {
			if t == nil {
				fill(*p, seed)
				return
			}
			check(t, *p, seed)
			g.Put(p)
		}
	})
}

func TestGRPCAllocatesNothing(t *testing.T) {
	g := GRPC(steadyPool(t))
	noAllocs(t, func() { g.Put(g.Get(32 << 10)) })
}

// TestGRPCForgetsWhatIsNeverPutBack: grpc-go drops pointers when a stream is torn down. Neither the
// memory nor the adapter's records of it may accumulate.
func TestGRPCForgetsWhatIsNeverPutBack(t *testing.T) {
	p := steadyPool(t)
	g := GRPC(p)
	const rounds, each = 50, 100
	for range rounds {
		for range each {
			g.Get(4096)
		}
		runtime.GC()
	}
	if slots := len(*g.known.slots.Load()); slots > 8*each {
		t.Errorf("%d slots after %d rounds of %d pointers that were dropped", slots, rounds, each)
	}
	for begun := time.Now(); p.Stats().InUse > 8*each*4096; runtime.Gosched() { // finalizers give it back, whenever they may run
		if time.Since(begun) > time.Minute {
			t.Fatalf("%d bytes are still in use", p.Stats().InUse)
		}
	}
}

// TestGRPCKnowsAll has more pointers out at a time than the table first had room for.
func TestGRPCKnowsAll(t *testing.T) {
	g := GRPC(tarntest.NewPool(t))
	var out []*[]byte
	for range 1000 {
		out = append(out, g.Get(2000))
	}
	for _, p := range out {
		g.Put(p)
	}
}
