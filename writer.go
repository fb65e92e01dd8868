package tarn

import "io"

const (
	minWrite  = 512      // bytes of the first buffer, at least
	maxFirst  = 16 << 10 // and at most
	maxBuffer = 64 << 10 // to which buffers grow for small writes
	maxPiece  = 1 << 20  // of one large write
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
	for len(p) > 0 {
		if w.chain.room.n == 0 {
			w.grow(len(p))
		}
		k := min(len(p), w.chain.room.n)
		w.chain.lengthen(k)
		w.chain.place(p[:k])
		p = p[k:]
	}
	return n, nil
}

// WriteString is Write of a string.
func (w *Writer) WriteString(s string) (int, error) {
	n := len(s)
	for len(s) > 0 {
		if w.chain.room.n == 0 {
			w.grow(len(s))
		}
		k := copy(w.chain.room.Bytes(), s)
		w.chain.lengthen(k)
		w.chain.fill(k)
		s = s[k:]
	}
	return n, nil
}

// WriteByte appends one byte. The error is always nil.
func (w *Writer) WriteByte(v byte) error {
	if w.chain.room.n == 0 {
		w.grow(1)
	}
	w.chain.room.Bytes()[0] = v
	w.chain.lengthen(1)
	w.chain.fill(1)
	return nil
}

// Append appends b by reference; it takes ownership. See Chain about small ones.
func (w *Writer) Append(b Buffer) { w.chain.Append(b) }

// ReadFrom appends all that r has; see Chain.ReadFrom.
func (w *Writer) ReadFrom(r io.Reader) (int64, error) { return w.chain.readFrom(r, w.source()) }

// Chain moves what was written out, to be freed by the caller. The Writer is empty then, and may be
// used again.
func (w *Writer) Chain() Chain {
	var c Chain
	w.MoveTo(&c)
	return c
}

// MoveTo moves what was written to the end of dst. The Writer is empty then, and may be used again.
// With a dst that is used again and again nothing is allocated.
func (w *Writer) MoveTo(dst *Chain) {
	w.first = min(w.chain.bytes, maxFirst)
	w.chain.room.Free()
	w.chain.room = Buffer{}
	dst.AppendChain(&w.chain)
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
