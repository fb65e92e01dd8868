package tarn_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/tarn-go/tarn"
)

// This suite runs the same tests on every allocator of Buffers: pools of every check level and policy, and
// arenas on them.

// An allocatorCase is an Allocator with what a test may ask about it.
type allocatorCase struct {
	tarn.Allocator
	pool    *tarn.Pool
	edges   []int // lengths around which something changes
	zeroed  bool  // Get returns zeros
	release func()
}

func TestAllocators(t *testing.T) {
	for _, check := range []tarn.CheckLevel{tarn.CheckOff, tarn.CheckSampled, tarn.CheckAll, tarn.CheckGuard} {
		for zero, policy := range []string{"never", "on get", "on free"} {
			config := tarn.PoolConfig{
				Classes: []int{64, 100, 1000, 4096, 65_536}, Check: check, CheckEvery: 3, Zero: tarn.ZeroPolicy(zero),
				Report: withoutPanic(t),
			}
			name := fmt.Sprintf("check=%v/zero=%s", check, policy)
			t.Run(name+"/pool", func(t *testing.T) {
				p := newPool(t, config)
				runAllocator(t, allocatorCase{p, p, config.Classes, zero == 1, func() {}})
			})
			t.Run(name+"/arena", func(t *testing.T) {
				p := newPool(t, config)
				a := tarn.NewArena(p, 4096)
				runAllocator(t, allocatorCase{a, p, []int{1, 1024, 4096, 65_536}, false, a.Free})
			})
		}
	}
	t.Run("default ladder", func(t *testing.T) {
		p := newPool(t, tarn.PoolConfig{})
		runAllocator(t, allocatorCase{p, p, p.Classes(), false, func() {}})
	})
	t.Run("one class", func(t *testing.T) {
		p := newPool(t, tarn.PoolConfig{Classes: []int{1}})
		runAllocator(t, allocatorCase{p, p, []int{1}, false, func() {}})
	})
	t.Run("small arena", func(t *testing.T) {
		p := newPool(t, tarn.PoolConfig{})
		a := tarn.NewArena(p, 1)
		runAllocator(t, allocatorCase{a, p, []int{16, 64}, false, a.Free})
	})
}

func runAllocator(t *testing.T, a allocatorCase) {
	for _, law := range []struct {
		name string
		f    func(*testing.T, allocatorCase)
	}{
		{"lengths", testLengths}, {"apart", testApart}, {"views", testViews}, {"grow", testGrow},
		{"copies", testCopies}, {"stale", testStale}, {"zeroed", testZeroed}, {"concurrent", testConcurrent},
		{"chain", testChainOn},
	} {
		t.Run(law.name, func(t *testing.T) { law.f(t, a) })
		a.release()
		if s := a.pool.Stats(); s.InUseBuffers != 0 || s.InUse != 0 || s.Leaked != 0 {
			t.Errorf("after %s %d slabs are out (%d bytes), %d leaked", law.name, s.InUseBuffers, s.InUse, s.Leaked)
		}
	}
}

func testLengths(t *testing.T, a allocatorCase) {
	if b := a.Get(0); !b.IsZero() || b.Len() != 0 || b.Bytes() != nil {
		t.Error("Get(0) is not the zero Buffer")
	}
	for _, n := range []int{-1, -1 << 31} {
		if caught(func() { a.Get(n) }) == nil {
			t.Errorf("Get(%d) does not panic", n)
		}
	}
	for _, edge := range a.edges {
		for n := max(edge-1, 1); n <= edge+1; n++ {
			b := a.Get(n)
			if p := b.Bytes(); b.Len() != n || len(p) != n || cap(p) != n {
				t.Errorf("Get(%d): Len %d, Bytes of %d and capacity %d", n, b.Len(), len(p), cap(p))
			}
			if b.Pinned() < n {
				t.Errorf("Get(%d) pins %d", n, b.Pinned())
			}
			b.Free()
		}
	}
}

// fillWith writes a pattern by which buffers are distinguished.
func fillWith(p []byte, v int) {
	for i := range p {
		p[i] = byte(v + i*7)
	}
}

func filledWith(p []byte, v int) bool {
	for i := range p {
		if p[i] != byte(v+i*7) {
			return false
		}
	}
	return true
}

// testApart checks that buffers in use at the same time do not overlap.
func testApart(t *testing.T, a allocatorCase) {
	r := rand.New(rand.NewPCG(1, 2))
	var out []tarn.Buffer
	for i := range 200 {
		b := a.Get(1 + r.IntN(1+i*10))
		fillWith(b.Bytes(), len(out))
		out = append(out, b)
	}
	for i, b := range out {
		if !filledWith(b.Bytes(), i) {
			t.Errorf("buffer %d of %d bytes was overwritten", i, b.Len())
		}
		b.Free()
	}
}

func testViews(t *testing.T, a allocatorCase) {
	for _, n := range []int{1, 2, 50, 64, 777, 5000} {
		b := a.Get(n)
		fillWith(b.Bytes(), n)
		want := bytes.Clone(b.Bytes())
		i, j := n/3, n-n/4
		slice, again := b.Slice(i, j), b.Ref()
		if b.Unique() || slice.Unique() {
			t.Error("unique with three references")
		}
		if !bytes.Equal(slice.Bytes(), want[i:j]) || cap(slice.Bytes()) != j-i || !bytes.Equal(again.Bytes(), want) {
			t.Errorf("Slice(%d, %d) or Ref of %d shows other bytes", i, j, n)
		}
		head, tail := b.Split(j)
		if !bytes.Equal(head.Bytes(), want[:j]) || !bytes.Equal(tail.Bytes(), want[j:]) {
			t.Errorf("Split(%d) of %d shows other bytes", j, n)
		}
		if _, ok := tail.Join(head); ok && j > 0 && j < n {
			t.Error("joined in the wrong order")
		}
		whole, ok := head.Join(tail)
		if !ok || !bytes.Equal(whole.Bytes(), want) {
			t.Errorf("Join of what Split(%d) made: %v", j, ok)
		}
		whole = whole.Narrow(i, j)
		again.Free()
		slice.Free()
		if !bytes.Equal(whole.Bytes(), want[i:j]) {
			t.Errorf("Narrow(%d, %d) of %d shows other bytes", i, j, n)
		}
		for _, f := range []func(){
			func() { whole.Slice(-1, 0) }, func() { whole.Slice(0, whole.Len()+1) }, func() { whole.Slice(1, 0) },
			func() { whole.Split(-1) }, func() { whole.Split(whole.Len() + 1) },
			func() { whole.Narrow(-1, 0) }, func() { whole.Narrow(0, whole.Len()+1) },
			func() { whole.GrowTail(-1) }, func() { whole.GrowHead(-1) },
		} {
			if caught(f) == nil {
				t.Error("a length out of bounds did not panic")
			}
		}
		whole.Free()
	}
}

func testGrow(t *testing.T, a allocatorCase) {
	b := a.Get(40)
	fillWith(b.Bytes(), 3)
	b = b.Narrow(4, 30)
	head, tail := b.Headroom(), b.Tailroom()
	if !b.Unique() && head+tail > 0 {
		t.Error("room of a shared slab")
	}
	if _, ok := b.GrowTail(tail + 1); ok {
		t.Error("grew beyond the tail room")
	}
	if _, ok := b.GrowHead(head + 1); ok {
		t.Error("grew beyond the head room")
	}
	b, okTail := b.GrowTail(tail)
	b, okHead := b.GrowHead(head)
	if !okTail || !okHead || b.Len() != 26+head+tail || b.Unique() && b.Len() != b.Pinned() {
		t.Errorf("grew to %d of %d bytes", b.Len(), b.Pinned())
	}
	if b = b.Narrow(head, head+26); b.Bytes()[0] != byte(3+4*7) || b.Bytes()[25] != byte(3+29*7) {
		t.Error("growing changed the bytes")
	}
	b.Free()
}

func testCopies(t *testing.T, a allocatorCase) {
	b := a.Get(3000)
	fillWith(b.Bytes(), 9)
	clone := b.Clone()
	if !clone.Unique() || !filledWith(clone.Bytes(), 9) || &clone.Bytes()[0] == &b.Bytes()[0] {
		t.Error("Clone is not a separate copy of the bytes")
	}
	clone.Free()
	if got := b.AppendTo([]byte("x")); got[0] != 'x' || !filledWith(got[1:], 9) {
		t.Error("AppendTo")
	}
	b = b.Narrow(0, 10).Shrink()
	if b.Len() != 10 || !filledWith(b.Bytes(), 9) {
		t.Error("Shrink changed the bytes")
	}
	b.Free()
}

// testStale checks that each use of a freed buffer panics with a *Misuse.
func testStale(t *testing.T, a allocatorCase) {
	b := a.Get(2000)
	b.Free()
	a.release() // so that the slab of an arena returns to its pool
	for name, f := range map[string]func(){
		"Bytes": func() { b.Bytes() }, "Ref": func() { b.Ref() }, "Slice": func() { b.Slice(0, 1) },
		"Split": func() { b.Split(1) }, "Unique": func() { b.Unique() }, "Free": b.Free, "Clone": func() { b.Clone() },
		"GrowTail": func() { b.GrowTail(1) }, "Append": func() { new(tarn.Chain).Append(b) },
		"Prepend": func() { new(tarn.Chain).Prepend(b) },
	} {
		var m *tarn.Misuse
		if err, _ := caught(f).(error); !errors.As(err, &m) {
			t.Errorf("%s of a freed buffer: %v", name, err)
		}
	}
}

func testZeroed(t *testing.T, a allocatorCase) {
	if !a.zeroed {
		return // contents are undefined
	}
	for _, n := range []int{10, 64, 900, 4096} {
		b := a.Get(n)
		fillWith(b.Bytes(), 1)
		b.Free()
		b = a.Get(n / 2)
		b, _ = b.GrowTail(b.Tailroom())
		if len(bytes.Trim(b.Bytes(), "\x00")) != 0 {
			t.Errorf("%d bytes are not all zero", b.Len())
		}
		b.Free()
	}
}

// testConcurrent has goroutines get, share, pass on and free.
func testConcurrent(t *testing.T, a allocatorCase) {
	const workers, rounds = 8, 300
	queue := make(chan tarn.Buffer, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			for range rounds {
				n := 1 + r.IntN(3000)
				b := a.Get(n)
				fillWith(b.Bytes(), n)
				head, tail := b.Split(n / 2)
				queue <- head
				if !filledWith(tail.Bytes(), n+n/2*7) {
					t.Error("bytes were overwritten")
				}
				tail.Free()
				other := <-queue
				if p := other.Bytes(); len(p) > 0 && !filledWith(p, int(p[0])) {
					t.Error("bytes were overwritten on their way to another goroutine")
				}
				other.Free()
			}
		})
	}
	wg.Wait()
}

// testChainOn runs Chain and Writer on the allocator.
func testChainOn(t *testing.T, a allocatorCase) {
	w := tarn.NewWriter(a)
	var want []byte
	for i := range 60 {
		b := a.Get(1 + i*i)
		fillWith(b.Bytes(), i)
		want = b.AppendTo(want)
		w.Append(b)
		p := bytes.Repeat([]byte{byte(i)}, 5*i)
		want = append(want, p...)
		w.Write(p)
	}
	c := w.Take()
	b, err := c.Next(c.Len())
	if err != nil || !bytes.Equal(b.Bytes(), want) {
		t.Errorf("%d bytes of %d, or not the same: %v", b.Len(), len(want), err)
	}
	b.Free()
}
