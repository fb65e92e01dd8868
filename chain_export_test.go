package tarn

import "unsafe"

// Held is how many bytes of heap the chain holds: distinct slabs in full, and its records.
func (c *Chain) Held() int {
	slabs := map[*slab]bool{}
	for i := range c.n {
		slabs[c.at(i).slab] = true
	}
	if c.room.slab != nil {
		slabs[c.room.slab] = true
	}
	held := 0
	for s := range slabs {
		held += len(s.mem)
	}
	if r := c.rope; r != nil {
		held += int(unsafe.Sizeof(*r)) + cap(r.ring)*int(unsafe.Sizeof(Buffer{})) + cap(r.vec.views)*int(unsafe.Sizeof([]byte{}))
	}
	return held
}

// SlabSize is the size of the slab that b is in.
func (b Buffer) SlabSize() int { return len(b.slab.mem) }
