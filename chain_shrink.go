package tarn

// maxShrunk bounds in bytes the slabs that Shrink copies to.
const maxShrunk = 64 << 10

// Shrink copies those bytes to slabs that fit them whose own slabs the chain uses to less than a
// quarter. A chain of n bytes holds at most 4n bytes of heap and 4 KiB then, without the slabs that
// its bound leaves out otherwise. Worth calling before the bytes are kept for long, say because
// their reader is slow. O(segments), and copies less than a quarter of the heap that it gives up.
func (c *Chain) Shrink() {
	c.room.Free()
	c.room = Buffer{}
	poor := 0
	for i := int32(0); i < c.n; {
		g := c.group(i)
		if !g.pays() {
			poor += g.bytes
		}
		i += g.segments
	}
	if poor == 0 {
		return
	}
	var fit Chain
	for c.n > 0 {
		g := c.group(0)
		for range g.segments {
			b := c.pop()
			fit.bytes += b.n
			if g.pays() {
				fit.push(b)
				continue
			}
			for p := b.Bytes(); len(p) > 0; {
				fit.reserve(c.sourceFor(b), 1, min(poor, maxShrunk))
				k := min(len(p), fit.room.n)
				fit.place(p[:k])
				p = p[k:]
				poor -= k
			}
			b.Free()
		}
	}
	fit.room.Free()
	fit.room = Buffer{}
	if fit.rope != nil {
		fit.rope.run = run{} // every slab is paid for
	}
	fit.swap(c)
}

// group is neighbouring segments of one slab.
type group struct {
	segments      int32
	bytes, pinned int
}

// group is the one that begins with the i-th segment.
func (c *Chain) group(i int32) group {
	s := c.at(i).slab
	g := group{pinned: s.Size()}
	for ; i < c.n && c.at(i).slab == s; i++ {
		g.segments++
		g.bytes += c.at(i).n
	}
	return g
}

// pays reports whether its bytes pay for its slab.
func (g group) pays() bool {
	return heapPerByte*int64(g.bytes) >= int64(g.pinned)+entryCost/2*int64(g.segments)
}
