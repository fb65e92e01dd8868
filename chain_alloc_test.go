package tarn_test

import (
	"bytes"
	"io"
	"runtime/debug"
	"testing"

	"github.com/tarn-go/tarn"
)

// TestChainAllocations asserts that a chain and a writer that are used again allocate nothing.
func TestChainAllocations(t *testing.T) {
	p := unchecked(t)
	client, server := pair(t, "tcp", "127.0.0.1:0")
	var c, out tarn.Chain
	c.SetPool(p)
	w := tarn.NewWriter(p)
	views := make([][]byte, 0, 64)
	piece, large, got := make([]byte, 100), make([]byte, 5000), make([]byte, 40*500)
	source := bytes.NewReader(large)
	big := p.Get(32 << 10)
	fill := func(segments int) {
		for range segments {
			c.Append(p.Get(500))
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would empty pools, whose allocations are not to be counted
	for _, tt := range []struct {
		name string
		f    func()
	}{
		{"Append, Discard of 1", func() { fill(1); c.Discard(500) }},
		{"Append, Discard of 40", func() { fill(40); c.Discard(40 * 500) }},
		{"Append of one-byte segments", func() {
			for i := range 200 {
				c.Append(big.Slice(10*i, 10*i+1))
			}
			c.Discard(200)
		}},
		{"Peek", func() {
			fill(40)
			views, _ = c.Peek(c.Len(), views[:0])
			clear(views)
			c.Discard(c.Len())
		}},
		{"CutTo, Discard", func() {
			fill(10)
			c.CutTo(&out, 2750)
			out.Discard(2750)
			c.Discard(c.Len())
		}},
		{"Cut of few segments", func() {
			fill(10)
			cut, _ := c.Cut(1000)
			cut.Free()
			c.Discard(c.Len())
		}},
		{"Cut of everything", func() { fill(2); cut, _ := c.Cut(c.Len()); cut.Free() }},
		{"Next", func() {
			fill(5)
			for _, n := range []int{100, 400, 700} {
				b, _ := c.Next(n)
				b.Free()
			}
			c.Discard(c.Len())
		}},
		{"Read, ReadByte", func() { fill(5); c.Read(large[:777]); c.ReadByte(); c.Discard(c.Len()) }},
		{"Prepend", func() { fill(3); c.PrependBytes(piece[:9]); c.Prepend(p.Get(64)); c.Discard(c.Len()) }},
		{"ReadFrom", func() { source.Reset(large); c.ReadFrom(source); c.Discard(c.Len()) }},
		{"WriteTo a socket", func() { fill(40); c.WriteTo(client); io.ReadFull(server, got) }},
		{"WriteTo a writer", func() { fill(40); c.WriteTo(io.Discard) }},
		{"Writer.Write", func() {
			for range 500 {
				w.Write(piece)
			}
			w.MoveTo(&out)
			out.Free()
		}},
		{"Writer.WriteByte, WriteString", func() {
			for range 50 {
				w.WriteByte('x')
				w.WriteString("yz")
			}
			w.MoveTo(&out)
			out.Free()
		}},
		{"Writer.Take of one segment", func() { w.Write(piece); moved := w.Take(); moved.Free() }},
		{"Writer.Append", func() { w.Write(piece); w.Append(p.Get(5000)); w.Write(piece); w.Free() }},
	} {
		for range 20 {
			tt.f()
		}
		n := testing.AllocsPerRun(200, tt.f)
		if raceEnabled {
			continue // the race detector drops items of every sync.Pool at random
		}
		if n != 0 {
			t.Errorf("%s: %v allocations", tt.name, n)
		}
	}
	big.Free()
}
