package tarn_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/tarn-go/tarn"
)

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
