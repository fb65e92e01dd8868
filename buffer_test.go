package tarn_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
)

func TestSplitReturnsTheSlab(t *testing.T) {
	p := tarntest.NewPool(t)
	b := p.Copy([]byte("hello, world"))
	head, tail := b.Split(5)
	tail, end := tail.Split(2)
	for _, c := range []struct {
		b    tarn.Buffer
		want string
	}{{head, "hello"}, {tail, ", "}, {end, "world"}} {
		if string(c.b.Bytes()) != c.want {
			t.Errorf("%q, want %q", c.b.Bytes(), c.want)
		}
	}
	tail.Free()
	head.Free()
	if p.Stats().InUseBuffers != 1 {
		t.Error("the slab returned to its pool before its last reference was freed")
	}
	end.Free()
	if st := p.Stats(); st.InUseBuffers != 0 || st.InUse != 0 {
		t.Errorf("still out: %+v", st)
	}
}

func TestJoinNeighbours(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{Check: tarn.CheckAll, Report: withoutPanic(t)})
	head, tail := p.Copy([]byte("hello, world")).Split(5)
	whole, ok := head.Join(tail)
	if !ok || string(whole.Bytes()) != "hello, world" || !whole.Unique() {
		t.Fatalf("Join = %q, %v", whole.Bytes(), ok)
	}
	if caught(tail.Free) == nil {
		t.Error("the joined tail can still be freed")
	}
	other := p.Copy([]byte("!"))
	if _, ok := whole.Join(other); ok {
		t.Error("joined bytes of two slabs")
	}
	if _, ok := other.Join(tarn.Buffer{}); ok {
		t.Error("joined the zero Buffer")
	}
	whole.Free()
	other.Free()
}

// However often slices are joined and sliced again, a slab counts the references there are.
func TestSlicesJoinedForEver(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{Check: tarn.CheckOff})
	b := p.Copy([]byte("hello, world"))
	for range 1000 {
		left, right := b.Slice(0, 5), b.Slice(5, b.Len())
		b.Free()
		joined, ok := left.Join(right)
		if !ok {
			t.Fatal("neighbours do not join")
		}
		head, tail := joined.Split(7)
		if b, ok = head.Join(tail); !ok || !b.Unique() || string(b.Bytes()) != "hello, world" {
			t.Fatalf("%q, unique %v", b.Bytes(), b.Unique())
		}
	}
	b.Free()
	if st := p.Stats(); st.InUseBuffers != 0 || st.Frees != 1 {
		t.Errorf("%+v", st)
	}
}

func TestGrow(t *testing.T) {
	p := tarntest.NewPool(t)
	b := p.Get(100).Narrow(10, 60)
	if b.Headroom() != 10 || b.Tailroom() != b.Pinned()-60 {
		t.Errorf("Headroom %d, Tailroom %d of %d", b.Headroom(), b.Tailroom(), b.Pinned())
	}
	again := b.Ref()
	if _, ok := b.GrowTail(1); ok || b.Tailroom() != 0 || b.Headroom() != 0 {
		t.Error("grew while shared")
	}
	again.Free()
	b, ok := b.GrowHead(10)
	if !ok || b.Len() != 60 {
		t.Fatalf("GrowHead: %v, %d bytes", ok, b.Len())
	}
	if _, ok := b.GrowHead(1); ok {
		t.Error("grew before the slab")
	}
	b, ok = b.GrowTail(b.Tailroom())
	if !ok || b.Len() != b.Pinned() {
		t.Fatalf("GrowTail: %v, %d of %d bytes", ok, b.Len(), b.Pinned())
	}
	if _, ok := b.GrowTail(1); ok {
		t.Error("grew behind the slab")
	}
	b.Free()
}

func TestShrink(t *testing.T) {
	p := tarntest.NewPool(t)
	big := p.Get(1 << 20)
	view := big.Slice(500, 600)
	copy(view.Bytes(), "keep me") //tarn:allow write the other reference is not read
	big.Free()
	small := view.Shrink()
	if small.Pinned() > 256 || string(small.Bytes()[:7]) != "keep me" || small.Len() != 100 {
		t.Errorf("Shrink pins %d bytes for %q", small.Pinned(), small.Bytes()[:7])
	}
	if st := p.Stats(); st.InUseBuffers != 1 {
		t.Errorf("%d slabs out", st.InUseBuffers)
	}
	at := &small.Bytes()[0]
	same := small.Shrink()
	if &same.Bytes()[0] != at {
		t.Error("Shrink copied what fits")
	}
	same.Free()
}

func TestCopies(t *testing.T) {
	p := tarntest.NewPool(t)
	b := p.Copy([]byte("abc"))
	c := b.Clone()
	c.Bytes()[0] = 'X'
	if got := string(b.AppendTo([]byte("> "))); got != "> abc" {
		t.Errorf("AppendTo = %q", got)
	}
	b.Free()
	if string(c.Bytes()) != "Xbc" {
		t.Errorf("Clone = %q", c.Bytes())
	}
	c.Free()
	if z := (tarn.Buffer{}).Clone(); !z.IsZero() {
		t.Error("a clone of the zero Buffer is not the zero Buffer")
	}
}

func TestZeroBuffer(t *testing.T) {
	var b tarn.Buffer
	b.Free()
	b.Free()
	head, tail := b.Split(0)
	head.Free()
	tail.Free()
	b.Ref().Free()
	b.Slice(0, 0).Free()
	if b.Len() != 0 || b.Bytes() != nil || b.Pinned() != 0 || b.Headroom()+b.Tailroom() != 0 {
		t.Error("the zero Buffer is not empty")
	}
	if _, ok := b.GrowTail(1); ok {
		t.Error("the zero Buffer grew")
	}
}

func TestBoundsPanicLikeASlice(t *testing.T) {
	p := tarntest.NewPool(t)
	b := p.Get(10)
	defer b.Free()
	for name, f := range map[string]func(){
		"Slice past the end":  func() { b.Slice(0, 11) },
		"Slice backwards":     func() { b.Slice(5, 4) },
		"Slice negative":      func() { b.Slice(-1, 4) },
		"Split past the end":  func() { b.Split(11) },
		"Split negative":      func() { b.Split(-1) },
		"Narrow past the end": func() { b.Narrow(0, 11) },
		"GrowTail negative":   func() { b.GrowTail(-1) },
		"GrowHead negative":   func() { b.GrowHead(-1) },
	} {
		err, ok := caught(f).(runtime.Error)
		if !ok || !strings.Contains(err.Error(), "slice bounds out of range") {
			t.Errorf("%s: panic %v", name, err)
		}
	}
	if p.Stats().InUseBuffers != 1 || !b.Unique() {
		t.Error("a refused call changed the count")
	}
}

// Every use of a handle whose slab has returned to the pool panics in the caller that misuses it, with no checks on.
func TestStaleHandlesPanic(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{Check: tarn.CheckOff})
	stale := p.Get(100)
	stale.Free()
	next := p.Get(100) // the same slab, nearly always, with another owner
	defer next.Free()
	copy(next.Bytes(), "mine")
	for op, f := range map[string]func(){
		"Bytes":    func() { stale.Bytes() },
		"Ref":      func() { stale.Ref() },
		"Slice":    func() { stale.Slice(0, 1) },
		"Split":    func() { stale.Split(1) },
		"Unique":   func() { stale.Unique() },
		"Free":     func() { stale.Free() },
		"Tailroom": func() { stale.Tailroom() },
		"GrowTail": func() { stale.GrowTail(1) },
		"AppendTo": func() { stale.AppendTo(nil) },
		"Clone":    func() { stale.Clone() },
	} {
		m, ok := caught(f).(*tarn.Misuse)
		if !ok {
			t.Errorf("%s on a stale handle: no *Misuse", op)
			continue
		}
		want := tarn.UseAfterFree
		if op == "Free" {
			want = tarn.DoubleFree
		}
		if m.Kind != want || m.Size != 128 || !strings.Contains(m.Error(), "TARN_CHECK=all") {
			t.Errorf("%s on a stale handle: %v", op, m)
		}
	}
	if !next.Unique() || string(next.Bytes()[:4]) != "mine" {
		t.Error("a stale handle reached the next owner")
	}
}

// A second Free while others live panics at once as long as references are freed in order. Otherwise it
// takes the weight of another reference, which panics instead of reading or of ending its slab early.
//
//tarn:allow double,leak,use the mistakes are what is tested
func TestFreeingOneOfManyTwice(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{Check: tarn.CheckOff})
	misuse := func(what string, f func()) {
		t.Helper()
		if _, ok := caught(f).(*tarn.Misuse); !ok {
			t.Errorf("%s did not panic", what)
		}
	}
	first := p.Get(100)
	one, two := first.Ref(), first.Ref()
	first.Free() // out of order
	misuse("the second Free of Get's reference", first.Free)
	one.Free()
	one.Free() // the count does not show that it was freed before
	misuse("the use of a robbed reference", func() { two.Bytes() })

	first = p.Get(100)
	one, two = first.Slice(0, 10), first.Slice(10, 20)
	two.Free()
	misuse("the second Free of the last slice", two.Free)
	misuse("the use of a freed slice", func() { two.Bytes() })
	misuse("the Ref of a freed slice", func() { two.Ref() })
	one.Free()
	misuse("the second Free of the first slice", one.Free)
	first.Bytes()
	first.Free()

	head, tail := p.Get(100).Split(10)
	head.Free()
	misuse("the second Free of a head", head.Free)
	tail.Free()

	a := tarn.NewArena(p, 1<<10)
	defer a.Free()
	one, two = a.Get(10), a.Get(10)
	one.Free()
	misuse("the second Free of a Buffer of an arena", one.Free)
	two.Free()
	if st := p.Stats(); st.InUseBuffers > 2 { // the slab with one reference too few and the arena's chunk
		t.Errorf("%d slabs in use", st.InUseBuffers)
	}
}

// A reference made of the one before, again and again, stays a valid one.
func TestChainOfReferences(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{Check: tarn.CheckOff})
	b := p.Get(100)
	for range 100_000 {
		next := b.Ref()
		b.Free()
		b = next
	}
	b.Free()
	if st := p.Stats(); st.InUse != 0 {
		t.Errorf("%d bytes in use", st.InUse)
	}
}

func TestReferencesInManyGoroutines(t *testing.T) {
	p := tarntest.NewPool(t)
	b := p.Copy(bytes.Repeat([]byte("x"), 1000))
	var wg sync.WaitGroup
	for g := range 32 {
		mine := b.Ref()
		wg.Go(func() {
			for i := range 100 {
				s := mine.Slice(i, i+10)
				if string(s.Bytes()) != "xxxxxxxxxx" {
					t.Error("bytes changed")
				}
				s.Free()
			}
			if g%2 == 0 {
				head, tail := mine.Split(500)
				head.Free()
				mine = tail
			}
			mine.Free()
		})
	}
	b.Free()
	wg.Wait()
}

// No two owners ever have the same memory, however Get and Free interleave.
func TestNoMemoryIsHandedOutTwice(t *testing.T) {
	for _, level := range []tarn.CheckLevel{tarn.CheckOff, tarn.CheckSampled, tarn.CheckAll, tarn.CheckGuard} {
		t.Run(level.String(), func(t *testing.T) {
			p := newPool(t, tarn.PoolConfig{Check: level, CheckEvery: 3})
			rounds := 20_000
			if level >= tarn.CheckAll {
				rounds = 500
			}
			handover := make(chan tarn.Buffer, 64)
			var wg sync.WaitGroup
			for g := range 8 {
				wg.Go(func() {
					for i := range rounds {
						b := p.Get(1 + i%3000)
						tag := fmt.Appendf(nil, "%d/%d", g, i)
						n := copy(b.Bytes(), tag)
						if !bytes.Equal(b.Bytes()[:n], tag[:n]) {
							t.Error("another goroutine's bytes")
						}
						select {
						case handover <- b:
						case other := <-handover:
							other.Free()
							b.Free()
						}
					}
				})
			}
			wg.Wait()
			close(handover)
			for b := range handover {
				b.Free()
			}
			collect(t, "balanced", func() bool {
				st := p.Stats()
				return st.InUseBuffers == 0 && st.Gets == st.Frees && st.Gets == uint64(8*rounds)
			})
		})
	}
}
