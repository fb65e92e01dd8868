package tarn_test

import (
	"fmt"
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
