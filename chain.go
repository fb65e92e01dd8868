package tarn

import (
	"errors"
	"fmt"
	"io"
)

// ErrShort is returned when a Chain has fewer bytes than were asked for; then nothing was consumed.
// It matches io.ErrUnexpectedEOF, too. Usually it means that more bytes must be received first.
var ErrShort = fmt.Errorf("tarn: fewer bytes in the chain than asked for: %w", io.ErrUnexpectedEOF)

// ErrCount is returned by ReadFrom and WriteTo when the reader or writer claims an impossible
// number of bytes, negative or more than it was given. That reader or writer is faulty.
var ErrCount = errors.New("tarn: a Read or Write reported an impossible count")

// Chain is a rope of Buffers: bytes in a row, whose memory lies in pieces. Appending, cutting and
// peeking move references and copy no bytes, whatever the lengths, but for small pieces that keep
// much larger slabs (see below). The zero Chain is empty and ready. It is not safe for concurrent
// use. A Chain owns what it holds (rule 1): copy the struct only to move it, and do not use
// the original then.
//
// # Memory bound
//
// However a peer cuts its data into pieces, a chain of n bytes holds at most 4n bytes of heap, plus
// four slabs of the largest size it was given or its pool makes for it, and 4 KiB. That counts the
// whole of each slab that it keeps from its pool and what it needs to know of each piece. For that,
// pieces that would cost more are copied together when a third comes to two that the chain keeps
// as they are: at once if under 256 bytes, else as soon as a slab ends up used to less than a
// quarter. No byte is copied twice while it is in the chain. Foreign memory counts by its own
// length. What Prepend puts in front is kept as it is, and counts on top. Shrink leaves no more than
// 4n bytes and 4 KiB.
//
// Lengths given to methods are bytes; negative ones panic.
type Chain struct {
	inline  [inlineSegments]Buffer // the segments, unless spilled
	room    Buffer                 // free memory of the chain alone, that bytes are copied or read into
	rope    *rope                  // the segments when spilled, otherwise nil or kept for reuse
	pool    *Pool                  // where memory comes from; nil: the pool of the segments
	bytes   int
	n       int32 // segments
	spilled bool  // the segments are in the rope
}

// Len is the number of bytes in the chain.
func (c *Chain) Len() int { return c.bytes }

// Segments is the number of pieces in which the bytes lie, as many as Peek of all of them returns.
func (c *Chain) Segments() int { return int(c.n) }

// SetPool says where the chain takes memory that it needs for itself: to copy small pieces
// together, to read into, to make straddling bytes contiguous. Without it that is the pool of the
// segments concerned, or Shared when there are none.
func (c *Chain) SetPool(p *Pool) { c.pool = p }

// Append puts b at the end; it takes ownership. An empty b is freed. O(1), over many calls; what is
// packed is copied.
func (c *Chain) Append(b Buffer) {
	if b.n == 0 {
		b.Free()
		return
	}
	if b.slab.Suspect(b.key) {
		b = b.handedOver("Append")
	}
	c.lengthen(b.n)
	if c.n > 0 {
		if tail := c.at(c.n - 1); tail.slab == b.slab {
			if joined, ok := tail.Join(b); ok {
				*tail = joined
				c.rope.joined(b)
				return
			}
		}
	}
	switch {
	case c.spilled:
		c.admit(b)
	case c.n < inlineSegments:
		c.inline[c.n] = b
		c.n++
	default:
		c.spill()
		c.admit(b)
	}
}

// AppendChain moves all of o to the end of c; o is empty then, and may be used again. Into an empty
// chain that is O(1), otherwise O(segments of o). Appending a chain to itself does nothing.
func (c *Chain) AppendChain(o *Chain) {
	if c == o {
		return
	}
	if c.n == 0 {
		o.swap(c)
		return
	}
	for o.n > 0 {
		c.Append(o.pop())
	}
}

// Prepend puts b in front; it takes ownership. An empty b is freed. O(1).
func (c *Chain) Prepend(b Buffer) {
	if b.n == 0 || c.n == 0 {
		c.Append(b)
		return
	}
	if b.slab.Suspect(b.key) {
		b = b.handedOver("Prepend")
	}
	c.lengthen(b.n)
	first := c.at(0)
	if joined, ok := b.Join(*first); ok {
		*first = joined
		return
	}
	c.pushFront(b)
}

// minFront is the least size in bytes of a buffer that PrependBytes makes, so that the headers of a
// few layers find room in it.
const minFront = 128

// PrependBytes puts a copy of p in front: into the room before the first segment, if it is the only
// reference to its slab, otherwise into a new small buffer, which leaves room for more.
func (c *Chain) PrependBytes(p []byte) {
	if len(p) == 0 {
		return
	}
	if c.n > 0 {
		first := c.at(0)
		if b, ok := first.GrowHead(len(p)); ok {
			c.lengthen(len(p))
			*first = b
			copy(b.Bytes(), p)
			return
		}
	}
	b := wholeSlab(c.source().Get(max(len(p), minFront)))
	b = b.Narrow(b.n-len(p), b.n)
	copy(b.Bytes(), p)
	c.Prepend(b)
}

// Free frees all that the chain holds. It is empty then, and may be used again.
func (c *Chain) Free() {
	for c.n > 0 {
		b := c.pop()
		b.Free()
	}
	c.room.Free()
	c.room = Buffer{}
}

// lengthen counts n more bytes.
func (c *Chain) lengthen(n int) {
	if c.bytes += n; c.bytes < 0 {
		panic("tarn: a chain longer than an int counts")
	}
}

// source is the pool for memory that the chain needs for itself.
func (c *Chain) source() *Pool {
	switch {
	case c.pool != nil:
		return c.pool
	case c.n > 0:
		return c.at(0).owner()
	default:
		return Shared()
	}
}

// wholeSlab is b, just gotten, with the rest of its slab if it is the only reference.
func wholeSlab(b Buffer) Buffer {
	if room := b.Tailroom(); room > 0 {
		b.n += room
	}
	return b
}
