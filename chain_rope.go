package tarn

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
