package wire

import "github.com/tarn-go/tarn"

const (
	firstTail = 1 << 10  // the first coalescing buffer of a batch, in bytes
	maxTail   = 32 << 10 // and the largest
	keepVec   = 64       // a vector cache longer than this is dropped after use
)

// Batch is a sequence of bytes on its way to a connection: small pieces copied
// together, large ones held by reference. Encode header fields straight into
// [Batch.Space]; append payloads. A Batch is for one goroutine at a time and is
// made by [Writer.NewBatch].
type Batch struct {
	pool  *tarn.Pool
	below int           // pieces shorter than this are copied
	vec   [][]byte      // what is to be sent, except mem[start:pos]
	held  []tarn.Buffer // freed when the batch is sent or dropped
	head  int           // vec[:head] is sent
	tail  tarn.Buffer   // the coalescing buffer
	mem   []byte        // tail.Bytes()
	start int           // mem[:start] belongs to vec
	pos   int           // mem[start:pos] is not in vec yet
	size  int           // bytes not sent
	sent  int           // and those that have been
	front int           // where Insert puts bytes until more than these are sent
	marks []int         // and where then; from the beginning of the batch, in order
}

// Len returns how many bytes have not been sent yet.
func (b *Batch) Len() int { return b.size }

// Space appends n bytes and returns them for the caller to fill before the batch
// is sent, until when the slice is borrowed. n must be in 0..MaxPeek, else it
// panics.
func (b *Batch) Space(n int) []byte {
	if n < 0 || n > MaxPeek {
		panic("wire: Space of a length outside 0..MaxPeek")
	}
	if len(b.mem)-b.pos < n {
		b.grow(n)
	}
	p := b.mem[b.pos : b.pos+n : b.pos+n]
	b.pos += n
	b.size += n
	return p
}

// Write appends a copy of p. It never fails.
func (b *Batch) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if b.pos == len(b.mem) {
			b.grow(1)
		}
		m := copy(b.mem[b.pos:], p)
		b.pos += m
		b.size += m
		p = p[m:]
	}
	return n, nil
}

// Append appends buf and takes ownership of it. A small one is copied and freed
// here, a large one is freed when the batch was sent or dropped.
func (b *Batch) Append(buf tarn.Buffer) {
	if buf.Len() < b.below {
		b.Write(buf.Bytes())
		buf.Free()
		return
	}
	b.seal()
	b.vec = append(b.vec, buf.Bytes())
	buf = buf.Narrow(0, buf.Len()) // with checks on, use of the caller's value is found from here on
	b.held = append(b.held, buf)
	b.size += buf.Len()
}

// Borrow appends p by reference when it is large, else a copy. p must not change
// until the batch was sent or dropped.
func (b *Batch) Borrow(p []byte) {
	if len(p) < b.below {
		b.Write(p)
		return
	}
	b.seal()
	b.vec = append(b.vec, p)
	b.size += len(p)
}

// AppendChain appends the first n bytes of c and moves them out of it. It panics
// if c holds fewer.
func (b *Batch) AppendChain(c *tarn.Chain, n int) {
	if n < 0 || n > c.Len() {
		panic("wire: AppendChain beyond the chain's length")
	}
	for n > 0 {
		buf := c.NextSegment()
		if buf.Len() > n {
			var rest tarn.Buffer
			buf, rest = buf.Split(n)
			c.Prepend(rest)
		}
		n -= buf.Len()
		b.Append(buf)
	}
}

// grow seals the coalescing buffer and takes one with n free bytes or more.
func (b *Batch) grow(n int) {
	b.seal()
	next := firstTail
	if b.mem != nil {
		b.held = append(b.held, b.tail)
		next = min(2*len(b.mem), maxTail)
	}
	if b.pool == nil {
		panic("wire: the zero Writer or Batch is not ready for use; make one with NewWriter or Writer.NewBatch")
	}
	b.tail = b.pool.Get(max(n, next))
	b.mem = b.tail.Bytes()
	b.start, b.pos = 0, 0
}

// seal moves what was coalesced into the vector.
func (b *Batch) seal() {
	if b.pos > b.start {
		b.vec = append(b.vec, b.mem[b.start:b.pos:b.pos])
		b.start = b.pos
	}
}

// pending seals and returns what is to be sent. It is borrowed until advance.
func (b *Batch) pending() [][]byte {
	b.seal()
	return b.vec[b.head:]
}

// advance says that n more bytes were sent.
func (b *Batch) advance(n int) {
	b.size -= n
	b.sent += n
	for n > 0 {
		s := b.vec[b.head]
		if n < len(s) {
			b.vec[b.head] = s[n:]
			return
		}
		n -= len(s)
		b.vec[b.head] = nil
		b.head++
	}
}

// Clear drops what was not sent, frees what the batch owns and clears its vector
// caches, so that nothing stays pinned.
func (b *Batch) Clear() {
	for _, buf := range b.held {
		buf.Free()
	}
	b.tail.Free()
	b.tail = tarn.Buffer{}
	b.reset()
}

// reset leaves b empty; what it owned is freed or another batch's, and tail is zero.
func (b *Batch) reset() {
	clear(b.held)
	clear(b.vec)
	if cap(b.vec) > keepVec {
		b.vec = nil
	}
	if cap(b.held) > keepVec {
		b.held = nil
	}
	if cap(b.marks) > keepVec {
		b.marks = nil
	}
	b.vec, b.held, b.marks = b.vec[:0], b.held[:0], b.marks[:0]
	b.mem = nil
	b.head, b.start, b.pos, b.size, b.sent, b.front = 0, 0, 0, 0, 0, 0
}
