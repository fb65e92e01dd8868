package tarn

import "io"

const (
	minWrite  = 512      // bytes of a buffer for small writes, at least
	maxBuffer = 64 << 10 // and at most
	maxPiece  = 1 << 20  // of a buffer for one large write
)

// Writer collects bytes in a Chain. It packs small writes into one buffer until that is full to the
// last byte of its slab, and takes buffers that grow with what was written. A large write gets
// buffers of its size. It is not safe for concurrent use. The zero Writer is ready and writes to
// Shared.
type Writer struct {
	from  Allocator
	first int // size of the first buffer: as large as what was written last time
	chain Chain
}

// NewWriter returns a Writer that takes its memory from a; nil means Shared.
func NewWriter(a Allocator) *Writer { return &Writer{from: a} }

// Len is the number of bytes written and not yet moved out.
func (w *Writer) Len() int { return w.chain.bytes }

// Write appends a copy of p. The error is always nil.
func (w *Writer) Write(p []byte) (int, error) {
	n := len(p)
	if dst := w.ahead(n); dst != nil {
		return copy(dst, p), nil
	}
	for len(p) > 0 {
		p = p[copy(w.next(len(p)), p):]
	}
	return n, nil
}

// WriteString is Write of a string.
func (w *Writer) WriteString(s string) (int, error) {
	n := len(s)
	if dst := w.ahead(n); dst != nil {
		return copy(dst, s), nil
	}
	for len(s) > 0 {
		s = s[copy(w.next(len(s)), s):]
	}
	return n, nil
}

// WriteByte appends one byte. The error is always nil.
func (w *Writer) WriteByte(v byte) error {
	dst := w.ahead(1)
	if dst == nil {
		dst = w.next(1)
	}
	dst[0] = v
	return nil
}

// ahead appends n bytes that continue the last segment and returns them, to be written by the
// caller; nil if they do not, or not all. It is the usual case of next, in short.
func (w *Writer) ahead(n int) []byte {
	c := &w.chain
	if n >= c.room.n {
		return nil
	}
	tail := c.beforeRoom()
	if tail == nil {
		return nil
	}
	dst := c.room.Bytes()[:n]
	c.lengthen(n)
	tail.n += n
	c.room.off += n
	c.room.n -= n
	return dst
}

// next appends some of n > 0 bytes, as many as the room has or a new one, and returns them, to be
// written by the caller.
func (w *Writer) next(n int) []byte {
	c := &w.chain
	if c.room.n == 0 {
		w.grow(n)
	}
	dst := c.room.Bytes()
	dst = dst[:min(n, len(dst))]
	c.lengthen(len(dst))
	c.fill(len(dst))
	return dst
}

// Append appends b by reference; it takes ownership. See Chain about small ones.
func (w *Writer) Append(b Buffer) { w.chain.Append(b) }

// ReadFrom appends all that r has; see Chain.ReadFrom.
func (w *Writer) ReadFrom(r io.Reader) (int64, error) { return w.chain.readFrom(r, w.source()) }

// Take moves what was written out, to be freed by the caller. The Writer is empty then, and may be
// used again.
func (w *Writer) Take() Chain {
	var c Chain
	w.MoveTo(&c)
	return c
}

// MoveTo moves what was written to the end of dst. The Writer is empty then, and may be used again.
// With a dst that is used again and again nothing is allocated.
func (w *Writer) MoveTo(dst *Chain) {
	c := &w.chain
	w.first = min(c.bytes, maxBuffer)
	tail := c.beforeRoom()
	c.room.Free()
	c.room = Buffer{}
	if tail != nil && tail.Unique() && heapPerByte*tail.n < tail.slab.Size() {
		*tail = tail.Shrink() // a large buffer for what turned out to be a small message
	}
	dst.AppendChain(c)
}

// Free frees what was written. The Writer is empty then, and may be used again.
func (w *Writer) Free() { w.chain.Free() }

// Reset is Free, and from then on memory comes from a; nil means Shared.
func (w *Writer) Reset(a Allocator) {
	w.Free()
	w.from, w.first = a, 0
}

// grow takes a new room, for at least the first of n bytes to be written.
func (w *Writer) grow(n int) {
	size := max(w.first, minWrite)
	if w.chain.bytes > 0 {
		size = min(max(w.chain.bytes, minWrite), maxBuffer)
	}
	w.chain.reserve(w.source(), 1, max(size, min(n, maxPiece)))
}

func (w *Writer) source() Allocator {
	if w.from == nil {
		return Shared()
	}
	return w.from
}
