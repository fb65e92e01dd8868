package tarn

import (
	"io"
	"math"
	"os"
	"strings"
	"sync/atomic"
	"testing"
)

// A slab whose generations are used up is retired rather than letting one repeat: a stale handle of
// its first cycle never finds a generation of its own again.
func TestGenerationsNeverRepeat(t *testing.T) {
	p, err := NewPool(PoolConfig{Check: CheckOff, Classes: []int{64}})
	if err != nil {
		t.Fatal(err)
	}
	for range 100 { // under the race detector a sync.Pool may drop the slab on the way
		b := p.Get(1)
		s := b.slab
		atomic.StoreUint64(&s.state, math.MaxUint32<<genShift|atomic.LoadUint64(&s.state)&(genStep-1))
		b.key = math.MaxUint32<<genShift | b.key&(genStep-1)
		b.Free()
		next := p.Get(1)
		if next.slab == s {
			t.Fatal("a slab began its generations anew")
		}
		next.Free()
	}
	if st := p.Stats(); st.Gets != st.Frees || st.InUseBuffers != 0 {
		t.Errorf("books: %+v", st)
	}
}

// The sampling threshold takes one generation in N, whatever run of them a slab goes through.
func TestScatterSamplesEvenly(t *testing.T) {
	for _, every := range []int{2, 64, 1024} {
		for _, start := range []uint32{1, 1 << 20, 1 << 31} {
			const n = 1 << 18
			hits := 0
			for i := range uint32(n) {
				if scatter(start+i) <= oneIn(every) {
					hits++
				}
			}
			if want := n / every; hits < want*9/10 || hits > want*11/10 {
				t.Errorf("1 in %d from %d: %d of %d", every, start, hits, n)
			}
		}
	}
	if scatter(0) != 0 || oneIn(1) != math.MaxUint32 {
		t.Error("generation zero must always be noticed")
	}
}

func TestRecordBucketsCoverTheirSizes(t *testing.T) {
	for n := 1; n <= MaxClassSize; n += 1 + n/500 {
		i := recordBucket(n)
		hi := largest(uint(i))
		if n > hi || i > 0 && n <= largest(uint(i-1)) {
			t.Fatalf("%d is in bucket %d, up to %d", n, i, hi)
		}
		if hi-n > n/32 {
			t.Fatalf("bucket of %d reaches to %d", n, hi)
		}
	}
}

func TestRecorder(t *testing.T) {
	p, err := NewPool(PoolConfig{Name: "r"})
	if err != nil {
		t.Fatal(err)
	}
	const n = 200_000
	for range n {
		p.Get(1000).Free()
	}
	p.record.size(math.MaxInt) // what is too large for a bucket must not break it
	h := p.Histogram()
	if h.Name != "r" || h.Every != RecordEvery || len(h.Classes) == 0 || h.Peak == 0 {
		t.Errorf("%+v", h)
	}
	total := uint64(0)
	for _, s := range h.Sizes {
		if s.Size >= 1000 && s.Size < 1032 {
			total += s.Count
		}
	}
	if total < n/2 || total > n*2 {
		t.Errorf("%d Gets recorded as about %d", n, total)
	}
	if len(h.Lifetimes) == 0 || h.Lifetimes[0].Cycles != 0 {
		t.Errorf("lifetimes: %+v", h.Lifetimes)
	}
	off, err := NewPool(PoolConfig{Record: RecordOff})
	if err != nil {
		t.Fatal(err)
	}
	off.Get(10).Free()
	if h := off.Histogram(); len(h.Sizes) != 0 {
		t.Errorf("RecordOff recorded %v", h.Sizes)
	}
}

func TestTellerSpeaksLessAndLess(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func(was *os.File) { os.Stderr = was }(os.Stderr)
	os.Stderr = w
	p, err := NewPool(PoolConfig{Name: "told"})
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		p.Refuse(make([]byte, 8))
	}
	w.Close()
	out, err := io.ReadAll(r)
	if n := strings.Count(string(out), "\n"); err != nil || n != 10 || !strings.Contains(string(out), "512 of these") {
		t.Errorf("%d lines for 1000 refusals (%v):\n%s", n, err, out)
	}
}

// A Ref of the Ref before finds the state that its key foretells each time; the bound on references
// holds on that way, too.
func TestTooManyReferences(t *testing.T) {
	p, err := NewPool(PoolConfig{Check: CheckOff, Record: RecordOff})
	if err != nil {
		t.Fatal(err)
	}
	b := p.Get(100)
	atomic.AddUint64(&b.slab.state, maxCount-whole-1)
	last := Buffer{b.slab, atomic.LoadUint64(&b.slab.state), 0, 100}.Ref()
	if n := count(atomic.LoadUint64(&b.slab.state)); n != maxCount {
		t.Fatalf("count %d, want %d", n, maxCount)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("one reference too many did not panic")
			}
		}()
		last.Ref()
	}()
	if n := count(atomic.LoadUint64(&b.slab.state)); n != maxCount {
		t.Errorf("count %d after the panic", n)
	}
	last.Free()
	atomic.AddUint64(&b.slab.state, ^(maxCount - whole - 2))
	b.Free()
	if st := p.Stats(); st.InUse != 0 {
		t.Errorf("%d bytes in use", st.InUse)
	}
}
