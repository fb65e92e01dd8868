package tarn

import (
	"github.com/tarn-go/tarn/internal/slab"
)

// This file keeps the memory bound of Chain. Each segment is in one of three states:
//
//   - dense: its bytes, times four, pay for its slab and for two entries of the ring, its own and
//     one of a packed segment behind it, each with the ring's slack.
//   - packed: it lies in the chain's room, which is filled from its beginning to its end.
//   - in the run: the segments of one slab that alone do not pay for it, but together may. There is
//     one run at a time. When a segment of another slab would begin a run, the old one is ended:
//     left as it is if its segments pay for its slab, otherwise packed.
//
// Small segments that are not dense are packed at once. So what is not paid for is the slab of the
// run, the room, and at the front, when the bytes behind were consumed, slabs of one run and one segment.

const (
	heapPerByte = 4       // the k of the bound
	entryCost   = 2 * 128 // bytes: two entries of a ring that is a quarter full
	tiny        = 256     // bytes; a shorter segment that is not dense is packed at once
	minRoom     = 512     // bytes of a room for packing
	maxRoom     = 16 << 10
)

// run is the current run; see above. The zero run is none.
type run struct {
	slab        *slab.Slab
	key         slab.Key
	start, last int   // numbers of its first and last segment
	surplus     int64 // what its segments pay, less what it costs
}

// surplus is how much memory n bytes in a separate segment are charged for, less what the segment costs
// without its slab.
func surplus(n int) int64 { return heapPerByte*int64(n) - entryCost }

// joined notes that b was joined to the last segment.
func (r *rope) joined(b Buffer) {
	if r != nil && r.run.has(b) {
		r.run.surplus += heapPerByte * int64(b.n)
	}
}

func (r *run) has(b Buffer) bool { return r.slab == b.slab && r.slab != nil && r.key.SameCycle(b.key) }

// admit puts b, whose bytes are counted already, at the end of a chain that has spilled into its rope.
func (c *Chain) admit(b Buffer) {
	r := c.rope
	next := r.seq + int(c.n)
	pays := surplus(b.n)
	pinned := int64(b.slab.Size())
	switch {
	case r.run.has(b):
		if b.n < tiny {
			c.packBuffer(b)
			return
		}
		r.run.last = next
		r.run.surplus += pays
	case pays >= pinned:
	case b.n < tiny && c.n > 0:
		c.packBuffer(b)
		return
	default:
		c.endRun()
		next = r.seq + int(c.n)
		pays -= pinned
		if c.n > 0 && c.at(c.n-1).slab == b.slab {
			pays += heapPerByte * int64(c.at(c.n-1).n)
		}
		r.run = run{slab: b.slab, key: b.key, start: next, last: next, surplus: pays}
	}
	c.push(b)
}

// packBuffer copies b into the room and frees it.
func (c *Chain) packBuffer(b Buffer) {
	c.reserve(c.sourceFor(b), b.n, c.packSize())
	c.place(b.Bytes())
	b.Free()
}

// packSize is the size of the next room: in proportion, so that what is free of it is, too.
func (c *Chain) packSize() int { return min(max(c.bytes/2, minRoom), maxRoom) }

func (c *Chain) sourceFor(b Buffer) *Pool {
	if c.pool != nil {
		return c.pool
	}
	return b.owner()
}

// endRun ends the run, and packs its segments if they do not pay for their slab.
func (c *Chain) endRun() {
	r := c.rope
	old := r.run
	r.run = run{}
	if old.slab == nil || old.surplus >= 0 {
		return
	}
	first, size := int32(max(old.start-r.seq, 0)), 0
	for i := first; i < c.n; i++ {
		if b := *c.at(i); old.has(b) {
			size += b.n
		}
	}
	c.reserve(c.sourceFor(*c.at(c.n - 1)), size, c.packSize())
	kept, n := first, c.n
	for i := first; i < n; i++ {
		b := *c.at(i)
		*c.at(i) = Buffer{}
		c.n = kept // so that what is packed goes behind what is kept
		if old.has(b) {
			c.place(b.Bytes())
			b.Free()
		} else {
			*c.at(kept) = b
			c.n++
		}
		kept = c.n
	}
}

// reserve makes the room at least n bytes, by a new one of the given size if need be.
func (c *Chain) reserve(a Allocator, n, size int) {
	if c.room.n >= n {
		return
	}
	c.room.Free()
	c.room = Buffer{}
	c.room = wholeSlab(a.Get(max(n, size)))
	if c.room.n < n {
		panic("tarn: an Allocator returned fewer bytes than asked for")
	}
}

// place copies p, not empty, into the room, which has space for it, as the chain's last bytes.
func (c *Chain) place(p []byte) {
	copy(c.room.Bytes(), p)
	c.fill(len(p))
}

// fill makes the first n bytes of the room, already written, the last of the chain. It does not
// count them. When they continue the last segment that only moves the border between the two.
func (c *Chain) fill(n int) {
	room := &c.room
	if n < room.n {
		if tail := c.beforeRoom(); tail != nil {
			tail.n += n
			room.off += n
			room.n -= n
			return
		}
	}
	seg := *room
	if n == seg.n {
		*room = Buffer{}
	} else {
		seg, *room = seg.Split(n)
	}
	if c.n > 0 {
		tail := c.at(c.n - 1)
		if joined, ok := tail.Join(seg); ok {
			*tail = joined
			return
		}
	}
	c.push(seg)
}

// beforeRoom is the last segment if it ends where the room begins, otherwise nil.
func (c *Chain) beforeRoom() *Buffer {
	if c.n == 0 {
		return nil
	}
	tail := c.at(c.n - 1)
	if tail.slab != c.room.slab || tail.off+tail.n != c.room.off {
		return nil
	}
	return tail
}

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
