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
	open  []byte // the chain's room, if it continues the last segment; its first bytes may be written already:
	added int    // bytes that the chain does not count yet; see count
}

// NewWriter returns a Writer that takes its memory from a; nil means Shared.
func NewWriter(a Allocator) *Writer { return &Writer{from: a} }

// Len is the number of bytes written and not yet moved out.
func (w *Writer) Len() int { return w.chain.bytes + w.added }

// Write appends a copy of p. The error is always nil.
func (w *Writer) Write(p []byte) (n int, _ error) {
	// It is inlined: the compiler's limit is 80, this costs 79.
	if n = len(p); copy(w.open[w.added:], p) < n {
		w.writeBeyond(p)
	} else {
		w.added += n
	}
	return
}

// writeBeyond ends a Write of more than the room has space for, which has been filled with the first bytes of p.
func (w *Writer) writeBeyond(p []byte) {
	p = p[w.fillOpen():]
	for len(p) > 0 {
		p = p[copy(w.next(len(p)), p):]
	}
	w.reopen()
}

// WriteString is Write of a string.
func (w *Writer) WriteString(s string) (n int, _ error) {
	if n = len(s); copy(w.open[w.added:], s) < n {
		w.writeStringBeyond(s)
	} else {
		w.added += n
	}
	return
}

// writeStringBeyond is writeBeyond of a string.
func (w *Writer) writeStringBeyond(s string) {
	s = s[w.fillOpen():]
	for len(s) > 0 {
		s = s[copy(w.next(len(s)), s):]
	}
	w.reopen()
}

// WriteByte appends one byte. The error is always nil.
func (w *Writer) WriteByte(v byte) error {
	if w.added < len(w.open) {
		w.open[w.added] = v
		w.added++
	} else {
		w.writeByteBeyond(v)
	}
	return nil
}

// writeByteBeyond is WriteByte where the room is full.
func (w *Writer) writeByteBeyond(v byte) {
	w.count()
	w.next(1)[0] = v
	w.reopen()
}

// fillOpen adds to the chain what was written to its room, and the rest of the room, which the caller has
// written since. It returns how many bytes that rest has.
func (w *Writer) fillOpen() int {
	rest := len(w.open) - w.added
	w.added += rest
	w.count()
	return rest
}

// count adds to the chain what was written to its room. Until reopen the chain is as any other.
func (w *Writer) count() {
	if w.added > 0 {
		w.chain.lengthen(w.added)
		w.chain.fill(w.added)
		w.added = 0
	}
	w.open = nil
}

// reopen lets small writes go to the chain's room, if that continues its last segment.
func (w *Writer) reopen() {
	if c := &w.chain; c.room.n > 0 && c.beforeRoom() != nil {
		w.open = c.room.Bytes()
	}
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
func (w *Writer) Append(b Buffer) {
	w.count()
	w.chain.Append(b)
}

// ReadFrom appends all that r has; see Chain.ReadFrom.
func (w *Writer) ReadFrom(r io.Reader) (int64, error) {
	w.count()
	return w.chain.readFrom(r, w.source())
}

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
	w.count()
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
func (w *Writer) Free() {
	w.count()
	w.chain.Free()
}

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
