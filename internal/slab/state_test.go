package slab

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/budget"
)

// testDepot is a depot without checks; what it reports fails the test.
func testDepot(t *testing.T, config Config) *Depot {
	t.Helper()
	if config.Classes == nil {
		config.Classes = []int{64, 128, 1024}
	}
	if config.Retain == 0 {
		config.Retain = 1 << 20
	}
	config.Fault = func(f Fault) any { return f }
	config.Report = func(f Fault) { t.Errorf("reported %+v", f) }
	d := new(Depot)
	d.Init(config)
	return d
}

// A slab whose generations are used up is retired rather than letting one repeat: a stale key of its
// first cycles never finds a generation of its own again.
func TestGenerationsNeverRepeat(t *testing.T) {
	d := testDepot(t, Config{Classes: []int{64}})
	for range 100 { // under the race detector a sync.Pool may drop the slab on the way
		s, key := d.Get(1)
		atomic.StoreUint64(&s.state, math.MaxUint32<<genShift|atomic.LoadUint64(&s.state)&(genStep-1))
		key = math.MaxUint32<<genShift | key&Key(genStep-1)
		s.Free(key)
		next, key := d.Get(1)
		if next == s {
			t.Fatal("the generations of a slab started again")
		}
		next.Free(key)
	}
	if st := d.Stats(); st.Gets != st.Frees || st.InUseBuffers != 0 {
		t.Errorf("books: %+v", st)
	}
}

// The sampling threshold takes one generation in N, whatever run of them a slab goes through.
func TestSampleHashIsEven(t *testing.T) {
	for _, every := range []int{2, 64, 1024} {
		for _, start := range []uint32{1, 1 << 20, 1 << 31} {
			const n = 1 << 18
			hits := 0
			for i := range uint32(n) {
				if sampleHash(start+i) <= oneIn(every) {
					hits++
				}
			}
			if want := n / every; hits < want*9/10 || hits > want*11/10 {
				t.Errorf("1 in %d from %d: %d of %d", every, start, hits, n)
			}
		}
	}
	if sampleHash(0) != 0 || oneIn(1) != math.MaxUint32 {
		t.Error("generation zero must always be noticed")
	}
}

// A Ref of the Ref before finds the state that its key predicts each time; the bound on references
// holds on that path, too.
func TestTooManyReferences(t *testing.T) {
	d := testDepot(t, Config{})
	s, key := d.Get(100)
	atomic.AddUint64(&s.state, maxCount-getWeight-1)
	last := s.Ref(Key(atomic.LoadUint64(&s.state)), "Ref", 100)
	if n := count(atomic.LoadUint64(&s.state)); n != maxCount {
		t.Fatalf("count %d, want %d", n, maxCount)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("one reference too many did not panic")
			}
		}()
		s.Ref(last, "Ref", 100)
	}()
	if n := count(atomic.LoadUint64(&s.state)); n != maxCount {
		t.Errorf("count %d after the panic", n)
	}
	s.Free(last)
	atomic.AddUint64(&s.state, ^(maxCount - getWeight - 2))
	s.Free(key)
	if st := d.Stats(); st.InUse != 0 {
		t.Errorf("%d bytes in use", st.InUse)
	}
}

// What a key predicts is the present sum, not that of its parent's time: it must not grow with the
// length of a chain of references, where it would carry into the flags after 2^29 of them.
func TestPredictionsStayInBounds(t *testing.T) {
	d := testDepot(t, Config{})
	s, key := d.Get(100)
	for range 1000 {
		next := s.Ref(key, "Ref", 100)
		s.Free(key)
		key = next
		if sum := uint64(key) & countMask; sum > 2*getWeight {
			t.Fatalf("the key of one of two references predicts a sum of %d", sum)
		}
	}
	s.Free(key)
}

// A slab that is retired because its generations are used up gives its charge back to the budget.
func TestWrappedGenerationIsChargedOnce(t *testing.T) {
	b := budget.New(budget.Config{Max: 64})
	d := testDepot(t, Config{Classes: []int{64}, Budget: b})
	for range 100 { // under the race detector a sync.Pool may drop the slab on the way
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := b.Acquire(ctx, 64)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		s, key := d.GetCharged(1, 64)
		atomic.StoreUint64(&s.state, math.MaxUint32<<genShift|atomic.LoadUint64(&s.state)&(genStep-1))
		s.Free(math.MaxUint32<<genShift | key&Key(genStep-1))
	}
	if over, _ := b.Pressure(); over != 0 {
		t.Errorf("%d charges beyond the budget", over)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Acquire(ctx, 64); err != nil {
		t.Errorf("nothing is in use, but Acquire failed: %v", err)
	}
}
