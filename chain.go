package tarn

import (
	"bytes"
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

// Peek appends views of the first n bytes to dst, one for each segment, and returns it: borrowed,
// valid until the chain is next changed, not to be written to. With fewer than n bytes it returns dst
// and ErrShort. The chain keeps no reference to dst. O(segments); allocates only when dst is too
// short.
func (c *Chain) Peek(n int, dst [][]byte) ([][]byte, error) {
	if !c.has(n) {
		return dst, ErrShort
	}
	for i := int32(0); n > 0; i++ {
		p := c.at(i).Bytes()
		p = p[:min(n, len(p)):min(n, len(p))]
		dst = append(dst, p)
		n -= len(p)
	}
	return dst, nil
}

// has reports whether there are n bytes, and panics if n is negative.
func (c *Chain) has(n int) bool {
	if n < 0 {
		outOfBounds(c.bytes, 0, n)
	}
	return n <= c.bytes
}

// Discard frees the first n bytes and returns n; or 0 and ErrShort if there are fewer, and frees
// nothing. O(segments freed).
func (c *Chain) Discard(n int) (int, error) {
	if !c.has(n) {
		return 0, ErrShort
	}
	c.discard(n)
	return n, nil
}

func (c *Chain) discard(n int) {
	for n > 0 {
		first := c.at(0)
		if first.n > n {
			*first = first.Narrow(n, first.n)
			c.bytes -= n
			return
		}
		n -= first.n
		b := c.pop()
		b.Free()
	}
}

// Cut moves the first n bytes into a chain of their own, to be freed. With fewer than n bytes it
// returns ErrShort and moves nothing. O(segments moved).
func (c *Chain) Cut(n int) (Chain, error) {
	var out Chain
	err := c.CutTo(&out, n)
	return out, err
}

// CutTo is Cut to the end of a chain that exists, so that one can be used again and again without
// allocating. A chain cannot be cut to itself: that panics.
func (c *Chain) CutTo(dst *Chain, n int) error {
	if c == dst {
		panic("tarn: a chain cut to itself")
	}
	if !c.has(n) {
		return ErrShort
	}
	if n == c.bytes && dst.n == 0 {
		c.swap(dst)
		return nil
	}
	for n > 0 {
		first := c.at(0)
		if first.n > n {
			dst.Append(c.split(n))
			return nil
		}
		n -= first.n
		dst.Append(c.pop())
	}
	return nil
}

// split takes the first n bytes of the first segment, which has more.
func (c *Chain) split(n int) Buffer {
	first := c.at(0)
	head, tail := first.Split(n)
	*first = tail
	c.bytes -= n
	return head
}

// Next takes the first n bytes out as one Buffer, to be freed: a reference if they lie in one
// segment, otherwise a copy. With fewer than n bytes it returns ErrShort and takes nothing.
// Next(0) is the zero Buffer.
func (c *Chain) Next(n int) (Buffer, error) {
	if !c.has(n) {
		return Buffer{}, ErrShort
	}
	if n == 0 {
		return Buffer{}, nil
	}
	switch first := c.at(0); {
	case first.n == n:
		return c.pop(), nil
	case first.n > n:
		return c.split(n), nil
	}
	b := c.source().Get(n)
	c.CopyTo(b.Bytes())
	c.discard(n)
	return b, nil
}

// NextSegment takes the first segment out, whatever its length, to be freed; the zero Buffer from an
// empty chain. O(1).
func (c *Chain) NextSegment() Buffer {
	if c.n == 0 {
		return Buffer{}
	}
	return c.pop()
}

// Ref returns a chain of further references to the same bytes, to be freed on its own. As both see
// the same memory, neither's bytes may be written (rule 3). O(segments).
func (c *Chain) Ref() Chain {
	var out Chain
	out.pool = c.pool
	for i := range c.n {
		out.Append(c.at(i).Ref())
	}
	return out
}

// Read copies bytes out into p and frees them. At the end of the chain it returns io.EOF.
func (c *Chain) Read(p []byte) (int, error) {
	if c.n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	n := c.CopyTo(p)
	c.discard(n)
	return n, nil
}

// ReadByte takes one byte out, or returns io.EOF.
func (c *Chain) ReadByte() (byte, error) {
	if c.n == 0 {
		return 0, io.EOF
	}
	v := c.at(0).Bytes()[0]
	c.discard(1)
	return v, nil
}

// CopyTo copies as many of the first bytes as dst has space for, and returns how many. The chain
// keeps them.
func (c *Chain) CopyTo(dst []byte) int {
	n := 0
	for i := int32(0); i < c.n && n < len(dst); i++ {
		n += copy(dst[n:], c.at(i).Bytes())
	}
	return n
}

// IndexByte is the position of the first byte of value v, or -1.
func (c *Chain) IndexByte(v byte) int {
	before := 0
	for i := range c.n {
		p := c.at(i).Bytes()
		if k := bytes.IndexByte(p, v); k >= 0 {
			return before + k
		}
		before += len(p)
	}
	return -1
}

// This file is where a Chain keeps its segments: two in the Chain itself, which is all that most
// chains ever have, and more in a ring.

const (
	inlineSegments = 2
	minRing        = 8
	keptRing       = 64 // segments; a longer ring is not kept for an emptied chain
)

// rope is the segments of a long chain, and what is known of them for the memory bound.
type rope struct {
	ring []Buffer // its length is a power of two; unused entries are zero
	head int
	seq  int // number of the first segment, counting all that ever were
	run  run
	vec  vector
}

// at is the i-th segment.
func (c *Chain) at(i int32) *Buffer {
	if !c.spilled {
		return &c.inline[i]
	}
	r := c.rope
	return &r.ring[(r.head+int(i))&(len(r.ring)-1)]
}

// spill moves the segments from the Chain itself into the ring.
func (c *Chain) spill() {
	if c.rope == nil {
		c.rope = new(rope)
	}
	inline, n := c.inline, c.n
	c.inline = [inlineSegments]Buffer{}
	c.n, c.spilled = 0, true
	for _, b := range inline[:n] {
		if b.slab == c.room.slab {
			c.push(b) // packed already
		} else {
			c.admit(b)
		}
	}
}

// push puts a segment at the end, as it is.
func (c *Chain) push(b Buffer) {
	if !c.spilled {
		if c.n < inlineSegments {
			c.inline[c.n] = b
			c.n++
			return
		}
		c.spill()
	}
	r := c.rope
	if int(c.n) == len(r.ring) {
		r.resize(int(c.n), max(minRing, 2*len(r.ring)))
	}
	c.n++
	*c.at(c.n - 1) = b
}

// pushFront puts a segment in front, as it is.
func (c *Chain) pushFront(b Buffer) {
	if !c.spilled {
		if c.n < inlineSegments {
			copy(c.inline[1:], c.inline[:c.n])
			c.inline[0] = b
			c.n++
			return
		}
		c.spill()
	}
	r := c.rope
	if int(c.n) == len(r.ring) {
		r.resize(int(c.n), max(minRing, 2*len(r.ring)))
	}
	r.head = (r.head - 1) & (len(r.ring) - 1)
	r.seq--
	c.n++
	*c.at(0) = b
}

// pop takes the first segment out, with its bytes.
func (c *Chain) pop() Buffer {
	first := c.at(0)
	b := *first
	*first = Buffer{}
	c.bytes -= b.n
	c.n--
	if !c.spilled {
		copy(c.inline[:], c.inline[1:])
		c.inline[inlineSegments-1] = Buffer{}
	} else {
		c.rope.popped(int(c.n))
	}
	if c.n == 0 {
		c.emptied()
	}
	return b
}

// popped moves the ring on, n segments being left, and shrinks it when it is largely unused.
func (r *rope) popped(n int) {
	r.head = (r.head + 1) & (len(r.ring) - 1)
	if r.seq == r.run.last {
		r.run = run{}
	}
	r.seq++
	if len(r.ring) > keptRing && n <= len(r.ring)/4 {
		r.resize(n, len(r.ring)/2)
	}
}

// emptied gives up what an empty chain need not hold.
func (c *Chain) emptied() {
	c.room.Free()
	c.room = Buffer{}
	if !c.spilled {
		return
	}
	c.spilled = false
	r := c.rope
	r.head, r.run = 0, run{}
	if len(r.ring) > keptRing {
		r.ring = nil
	}
}

// resize moves the n segments to a ring of another length.
func (r *rope) resize(n, length int) {
	ring := make([]Buffer, length)
	for i := range n {
		ring[i] = r.ring[(r.head+i)&(len(r.ring)-1)]
	}
	r.ring, r.head = ring, 0
}

// swap exchanges everything but the pool with o, which has no segments.
func (c *Chain) swap(o *Chain) {
	o.room.Free()
	o.room = Buffer{}
	*c, *o = *o, *c
	c.pool, o.pool = o.pool, c.pool
}
