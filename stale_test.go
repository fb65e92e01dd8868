package tarn_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/tarn-go/tarn"
)

// uses returns the methods that panic on a Buffer whose slab was freed, in every build and at every level.
//
//tarn:allow leak,use the mistakes are what is tested
func uses() map[string]func(tarn.Buffer) {
	return map[string]func(tarn.Buffer){
		"Bytes":    func(b tarn.Buffer) { b.Bytes() },
		"AppendTo": func(b tarn.Buffer) { b.AppendTo(nil) },
		"Clone":    func(b tarn.Buffer) { b.Clone() },
		"Ref":      func(b tarn.Buffer) { b.Ref() },
		"Slice":    func(b tarn.Buffer) { b.Slice(0, 1) },
		"Split":    func(b tarn.Buffer) { b.Split(1) },
		"Free":     func(b tarn.Buffer) { b.Free() },
		"Unique":   func(b tarn.Buffer) { b.Unique() },
		"Headroom": func(b tarn.Buffer) { b.Headroom() },
		"Tailroom": func(b tarn.Buffer) { b.Tailroom() },
		"GrowHead": func(b tarn.Buffer) { b.GrowHead(1) },
		"GrowTail": func(b tarn.Buffer) { b.GrowTail(0) },
	}
}

// passes are the methods that hand a reference on without its slab; what they return panics when it is
// used, and they themselves where checks track the buffer.
var passes = map[string]func(tarn.Buffer) tarn.Buffer{
	"Narrow": func(b tarn.Buffer) tarn.Buffer { return b.Narrow(0, 1) },
	"Shrink": func(b tarn.Buffer) tarn.Buffer { return b.Shrink() },
	"Join":   func(b tarn.Buffer) tarn.Buffer { c, _ := b.Join(tarn.Buffer{}); return c },
	"join":   func(b tarn.Buffer) tarn.Buffer { tarn.Buffer{}.Join(b); return b },
}

// Every use of a Buffer whose slab was freed panics, and neither frees nor shares the next owner's slab.
//
//tarn:allow double,leak,use the mistakes are what is tested
func TestEveryStaleUsePanics(t *testing.T) {
	for _, level := range []tarn.CheckLevel{tarn.CheckOff, tarn.CheckAll} {
		p := newPool(t, tarn.PoolConfig{Check: level})
		stale := func() tarn.Buffer {
			b := p.Get(1000)
			b.Free()
			return b
		}
		for name, use := range uses() {
			b := stale()
			next := p.Copy(make([]byte, 1000))
			if m, ok := caught(func() { use(b) }).(*tarn.Misuse); !ok {
				t.Errorf("%v: %s does not panic with a *Misuse", level, name)
			} else if m.Error() == "" {
				t.Errorf("%v: %s: no text", level, name)
			}
			next.Free() // was neither freed nor shared by the use
		}
		for name, pass := range passes {
			b := stale()
			v := caught(func() {
				c := pass(b)
				if level == tarn.CheckAll {
					t.Errorf("%s passes on what checks track", name)
				}
				c.Bytes()
			})
			if _, ok := v.(*tarn.Misuse); !ok {
				t.Errorf("%v: what %s returns does not panic with a *Misuse: %v", level, name, v)
			}
		}
		b := stale()
		if got := fmt.Sprint(b.Len(), b.Pinned(), b.IsZero()); got != "1000 1024 false" {
			t.Errorf("%v: %s", level, got)
		}
		if st := p.Stats(); st.InUseBuffers != 0 {
			t.Errorf("%v: %d buffers are out", level, st.InUseBuffers)
		}
	}
}

// Where checks track a reference, a Join that cannot join finds its use after it was handed over, too.
func TestJoinAfterMoveIsFound(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{Check: tarn.CheckAll})
	b, other := p.Get(100), p.Get(100)
	c := b.Narrow(0, 50)
	for name, use := range map[string]func(){"Join": func() { b.Join(other) }, "being joined": func() { other.Join(b) }} {
		if m, ok := caught(use).(*tarn.Misuse); !ok || m.Op != "Join" {
			t.Errorf("%s after Narrow is not found", name)
		}
	}
	c.Free()
	other.Free()
}

// freeOrder is the order in which references are freed.
type freeOrder string

const (
	unsplit   freeOrder = "last made, first freed, none split"
	lastFirst freeOrder = "last made, first freed"
	anyOrder  freeOrder = "any order"
)

// wrongUses makes random references to a slab, frees some of them while others live, uses one of those
// once more, and returns how many of so many wrong uses panicked at once. It begins anew each time, as
// a wrong use that is not caught leaves the slab one reference short.
func wrongUses(get func(int) tarn.Buffer, anew func(), order freeOrder, uses int) (found int) {
	r := rand.New(rand.NewPCG(1, 1))
	kinds := 3
	if order == unsplit {
		kinds = 2
	}
	for range uses {
		anew()
		live := []tarn.Buffer{get(100)}
		for range 1 + r.IntN(6) {
			i := r.IntN(len(live))
			switch r.IntN(kinds) {
			case 0:
				live = append(live, live[i].Ref())
			case 1:
				live = append(live, live[i].Slice(0, live[i].Len()))
			case 2:
				head, tail := live[i].Split(live[i].Len() / 2)
				live[i] = tail
				live = append(live, head)
			}
		}
		var freed []tarn.Buffer
		for range 1 + r.IntN(len(live)-1) {
			i := len(live) - 1 // as nested calls do
			if order == anyOrder {
				i = r.IntN(len(live))
			}
			live[i].Free()
			freed = append(freed, live[i]) //tarn:allow use the wrong use of it is what is tried
			live = append(live[:i], live[i+1:]...)
		}
		b := freed[r.IntN(len(freed))]
		use := []func(){b.Free, func() { b.Bytes() }, func() { b.Ref() }, func() { b.Unique() }}[r.IntN(4)]
		if caught(use) != nil {
			found++
		}
		for _, b := range live { // a wrong use may have taken away the weight of some
			caught(b.Free)
		}
	}
	return found
}

// The share of wrong uses that are caught at once while others hold the same slab. Those of a slab
// that no reference holds are all caught, at every level. The figures are quoted in doc.go.
func TestShareOfWrongUsesCaught(t *testing.T) {
	uses := 10_000
	if raceEnabled || testing.Short() { // one goroutine, and the same first uses
		uses = 2000
	}
	for _, c := range []struct {
		level       tarn.CheckLevel
		order       freeOrder
		pool, arena int // at least so many of 100
	}{
		{tarn.CheckOff, unsplit, 100, 100}, {tarn.CheckSampled, unsplit, 100, 100},
		{tarn.CheckOff, lastFirst, 78, 98}, {tarn.CheckOff, anyOrder, 27, 14},
		{tarn.CheckSampled, lastFirst, 78, 98}, {tarn.CheckSampled, anyOrder, 27, 14},
		{tarn.CheckAll, lastFirst, 100, 100}, {tarn.CheckAll, anyOrder, 100, 100},
		{tarn.CheckGuard, lastFirst, 100, 100}, {tarn.CheckGuard, anyOrder, 100, 100},
	} {
		p := newPool(t, tarn.PoolConfig{Check: c.level, Report: func(tarn.Misuse) {}})
		a := tarn.NewArena(p, 64<<10)
		pool := wrongUses(p.Get, func() {}, c.order, uses)
		arena := wrongUses(a.Get, a.Free, c.order, uses)
		a.Free()
		t.Logf("%v, %s: %.1f %% of a pool's, %.1f %% of an arena's", c.level, c.order, 100*float64(pool)/float64(uses), 100*float64(arena)/float64(uses))
		if pool < c.pool*uses/100 || arena < c.arena*uses/100 {
			t.Errorf("%v, %s: %d and %d of %d caught", c.level, c.order, pool, arena, uses)
		}
	}
}

//go:noinline
func handedOverHere(f func()) { f() }

// With checks on, a value that a call took ownership of must not be used by the caller any more, whatever
// the call did with it: each later use is found, and the text names the call.
func TestUseAfterHandOver(t *testing.T) {
	keep := func(b tarn.Buffer) func() { return b.Free }
	for name, give := range map[string]func(b tarn.Buffer) (free func()){
		"Chain.Append":  func(b tarn.Buffer) func() { c := new(tarn.Chain); c.Append(b); return c.Free },
		"Chain.Prepend": func(b tarn.Buffer) func() { c := new(tarn.Chain); c.Prepend(b); return c.Free },
		"Chain.Prepend to one": func(b tarn.Buffer) func() {
			c := new(tarn.Chain)
			c.Append(b.Slice(0, 10))
			c.Prepend(b)
			return c.Free
		},
		"Chain.Append to many": func(b tarn.Buffer) func() {
			c := new(tarn.Chain)
			for range 10 {
				c.Append(b.Slice(0, 1000))
			}
			c.Append(b)
			return c.Free
		},
		"Writer.Append": func(b tarn.Buffer) func() { w := tarn.NewWriter(nil); w.Append(b); return w.Free },
		"Narrow":        func(b tarn.Buffer) func() { return keep(b.Narrow(0, b.Len())) },
		"Shrink":        func(b tarn.Buffer) func() { return keep(b.Shrink()) },
		"GrowTail":      func(b tarn.Buffer) func() { g, _ := b.GrowTail(1); return keep(g) },
		"Join": func(b tarn.Buffer) func() {
			head, tail := b.Split(10)
			j, _ := head.Join(tail)
			return keep(j)
		},
		"Split": func(b tarn.Buffer) func() {
			head, tail := b.Split(10)
			return func() { head.Free(); tail.Free() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, tarn.PoolConfig{Check: tarn.CheckAll, Report: withoutPanic(t)})
			b := p.Get(4000)
			var free func()
			handedOverHere(func() { free = give(b) })
			for use, f := range map[string]func(){"Bytes": func() { b.Bytes() }, "Ref": func() { b.Ref() }, "Free": b.Free} {
				m, ok := caught(f).(*tarn.Misuse)
				if !ok || len(m.Acquired) == 0 || len(m.Freed) == 0 {
					t.Errorf("%s after %s: %v", use, name, m)
				} else if n := framesSinceHandOver(m.Freed); n != 2 {
					t.Errorf("%s after %s: the stack has %d frames of this test until handedOverHere, not that of give and that of its caller: %v", use, name, n, m)
				}
			}
			free()
			if n := len(p.Outstanding()); n != 0 {
				t.Errorf("%d outstanding", n)
			}
		})
	}
}

// TestStacksBeginAtTheCaller: the stack that is kept of a Get, a reference, a Free or a hand-over begins, after frames of this package,
// with the function that called it.
func TestStacksBeginAtTheCaller(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{Classes: []int{4096, 64 << 10}, Check: tarn.CheckAll, Report: withoutPanic(t)})
	a := tarn.NewArena(p, 64<<10)
	base := p.Get(4000)
	for name, get := range map[string]func() tarn.Buffer{
		"Get": func() tarn.Buffer { return p.Get(100) }, "Get of more than the largest class": func() tarn.Buffer { return p.Get(100_000) },
		"Acquire": func() tarn.Buffer { b, _ := p.Acquire(t.Context(), 100); return b }, "Copy": func() tarn.Buffer { return p.Copy(make([]byte, 100)) },
		"Wrap": func() tarn.Buffer { return p.Wrap(make([]byte, 100), nil) }, "Arena.Get": func() tarn.Buffer { return a.Get(100) },
		"Ref": base.Ref, "Slice": func() tarn.Buffer { return base.Slice(0, 100) }, "Clone": base.Clone,
		"Split": func() tarn.Buffer { head, tail := base.Ref().Split(10); head.Free(); return tail },
	} {
		var b tarn.Buffer
		handedOverHere(func() { b = get() })
		handedOverHere(func() { b.Free() })
		m, ok := caught(b.Free).(*tarn.Misuse)
		if !ok {
			t.Errorf("%s: no second Free was found", name)
			continue
		}
		if n := framesSinceHandOver(m.Acquired); n < 1 {
			t.Errorf("%s: the stack that acquired it has %d frames of this test: %v", name, n, m)
		}
		if n := framesSinceHandOver(m.Freed); n != 1 {
			t.Errorf("%s: the stack that freed it has %d frames of this test: %v", name, n, m)
		}
	}
	head, tail := base.Split(10)
	handedOverHere(func() { head, _ = head.Join(tail) })
	m, ok := caught(tail.Free).(*tarn.Misuse)
	if !ok || framesSinceHandOver(m.Freed) != 1 {
		t.Errorf("Join: %v", m)
	}
	head.Free()
	a.Free()
}

// framesSinceHandOver counts the frames outside package tarn between it and handedOverHere; -1 if that is not on the stack.
func framesSinceHandOver(stack tarn.Stack) int {
	frames := runtime.CallersFrames(stack)
	for n := 0; ; {
		f, more := frames.Next()
		switch {
		case strings.HasSuffix(f.Function, ".handedOverHere"):
			return n
		case !strings.HasPrefix(f.Function, "github.com/tarn-go/tarn."):
			n++
		}
		if !more {
			return -1
		}
	}
}

// A write through a slice kept beyond Free is reported when the slab is next handed out or given up,
// with who had it and who freed it.
func TestWriteAfterFree(t *testing.T) {
	for name, look := range map[string]func(p *tarn.Pool){
		"the next Get": func(p *tarn.Pool) { p.Get(100).Free() },
		"Trim":         (*tarn.Pool).Trim,
	} {
		t.Run(name, func(t *testing.T) {
			var found []tarn.Misuse
			p := newPool(t, tarn.PoolConfig{Check: tarn.CheckAll, Report: func(m tarn.Misuse) { found = append(found, m) }})
			for range 100 { // the race detector drops slabs of a sync.Pool at random
				b := acquiredHere(p)
				freedHere(b)
				look(p)
				if len(found) > 0 {
					t.Fatalf("reported without a write: %v", &found[0])
				}
				b = acquiredHere(p)
				kept := b.Bytes()
				freedHere(b)
				kept[50] = 1 //tarn:allow use the write after Free is what is tested
				if look(p); len(found) > 0 {
					break
				}
			}
			if len(found) != 1 || found[0].Kind != tarn.WriteAfterFree {
				t.Fatalf("reported %v", found)
			}
			for _, want := range []string{"write after free", "acquiredHere", "freedHere"} {
				if text := found[0].Error(); !contains(text, want) {
					t.Errorf("the report lacks %q:\n%s", want, text)
				}
			}
		})
	}
}
