package tarn

import (
	"reflect"

	"github.com/tarn-go/tarn/internal/slab"
)

// Held is how many bytes of heap the chain holds: distinct slabs in full, and its records.
func (c *Chain) Held() int {
	slabs := map[*slab.Slab]bool{}
	for i := range c.n {
		slabs[c.at(i).slab] = true
	}
	if c.room.slab != nil {
		slabs[c.room.slab] = true
	}
	held := 0
	for s := range slabs {
		held += s.Size()
	}
	if r := c.rope; r != nil {
		held += sizeOf(*r) + cap(r.ring)*sizeOf(Buffer{}) + cap(r.vec.views)*sizeOf([]byte{})
	}
	return held
}

func sizeOf(v any) int { return int(reflect.TypeOf(v).Size()) }

// Residue is how many references and views are left in entries of the chain's storage that hold no segment.
func (c *Chain) Residue() int {
	n := 0
	for i, b := range c.inline {
		if !b.IsZero() && (c.spilled || i >= int(c.n)) {
			n++
		}
	}
	if c.n == 0 && !c.room.IsZero() {
		n++
	}
	r := c.rope
	if r == nil {
		return n
	}
	for i, b := range r.ring {
		if !b.IsZero() && (!c.spilled || (i-r.head)&(len(r.ring)-1) >= int(c.n)) {
			n++
		}
	}
	for _, v := range r.vec.views[:cap(r.vec.views)] {
		if v != nil {
			n++
		}
	}
	if r.vec.rest != nil || !c.hasRun() {
		n++
	}
	return n
}

// hasRun reports whether the run, if there is one, is of a segment.
func (c *Chain) hasRun() bool {
	for i := range c.n {
		if c.rope.run.has(*c.at(i)) {
			return true
		}
	}
	return c.rope.run == run{}
}
