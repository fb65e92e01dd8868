package tarn

// This file is what a Buffer can do with the rest of its slab: grow into free room, or leave a slab
// that is too large for it.

// Tailroom is how many bytes GrowTail can add: those of the slab after b while b is Unique,
// otherwise 0.
func (b Buffer) Tailroom() int {
	if b.slab == nil || !b.Unique() {
		return 0
	}
	return b.slab.Size() - b.off - b.n
}

// Headroom is how many bytes GrowHead can add: those of the slab before b while b is Unique,
// otherwise 0.
func (b Buffer) Headroom() int {
	if b.slab == nil || !b.Unique() {
		return 0
	}
	return b.off
}

// GrowTail takes ownership of b and returns the same reference with n more bytes at its end, if
// b is Unique and its slab has them. Otherwise it returns b and false, and b stays the caller's. The new
// bytes are undefined (zero in a ZeroOnGet pool). A negative n panics.
func (b Buffer) GrowTail(n int) (Buffer, bool) {
	if n < 0 {
		outOfBounds(b.n, 0, n)
	}
	if n > b.Tailroom() {
		return b, false
	}
	b.n += n
	b.zeroGrown(b.n-n, b.n)
	return b.moved("GrowTail"), true
}

// GrowHead is GrowTail at the other end.
func (b Buffer) GrowHead(n int) (Buffer, bool) {
	if n < 0 {
		outOfBounds(b.n, 0, n)
	}
	if n > b.Headroom() {
		return b, false
	}
	b.off -= n
	b.n += n
	b.zeroGrown(0, n)
	return b.moved("GrowHead"), true
}

func (b Buffer) zeroGrown(i, j int) {
	if i < j && b.owner().config.Zero == ZeroOnGet {
		clear(b.Bytes()[i:j])
	}
}

// AppendTo appends a copy of the bytes to dst.
func (b Buffer) AppendTo(dst []byte) []byte { return append(dst, b.Bytes()...) }

// Clone returns a copy in a slab of its own, from the same pool, to be freed on its own.
func (b Buffer) Clone() Buffer {
	if b.slab == nil {
		return b
	}
	return b.owner().Copy(b.Bytes())
}

// Pinned is how many bytes of slab this reference keeps from its pool, however little it shows.
func (b Buffer) Pinned() int {
	if b.slab == nil {
		return 0
	}
	return b.slab.Size()
}

// Shrink takes ownership of b and returns its bytes in a slab that fits them. It copies if that
// frees at least half of what b pins; otherwise, and for foreign memory, it returns b itself. Worth
// calling before keeping a small view of a big buffer for long.
func (b Buffer) Shrink() Buffer {
	s := b.slab
	if s == nil || s.Foreign() || 2*b.owner().ClassSize(max(b.n, 1)) > s.Size() {
		return b.moved("Shrink")
	}
	fit := b.Clone()
	b.Free()
	return fit
}
