package tarn

import "sync/atomic"

// This file is what a Buffer can do with the rest of its slab: rejoin a neighbour, grow into free
// room, or leave a slab that is too large for it.

// Join takes ownership of b and next and returns one reference to the bytes of both, if next begins
// in the same slab where b ends. Otherwise it reports false, and both stay the caller's.
func (b Buffer) Join(next Buffer) (Buffer, bool) {
	s := b.slab
	if s == nil || s != next.slab || b.off+b.n != next.off || !current(b.key, next.key) {
		return b, false
	}
	if b.key&tracked == 0 { // as Split shared a weight, Join adds it up
		if st := atomic.LoadUint64(&s.state); !current(st, b.key) || count(st) < weight(b.key)+weight(next.key) {
			b.stale("Join")
		}
		b.key = b.key&genMask | weight(b.key) + weight(next.key)
		b.n += next.n
		return b, true
	}
	b.inspect("Join")
	next.endTracked("Join")
	if drop(&s.state, next.key, 1) == droppedStale {
		next.stale("Join")
	}
	b.n += next.n
	return b.resized(), true
}

// Tailroom is how many bytes GrowTail can add: those of the slab behind b while b is Unique,
// otherwise 0.
func (b Buffer) Tailroom() int {
	if b.slab == nil || !b.Unique() {
		return 0
	}
	return len(b.slab.mem) - b.off - b.n
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
// b is Unique and its slab has them. Otherwise it reports false and b stays the caller's. The new
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
	return b.resized(), true
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
	return b.resized(), true
}

func (b Buffer) zeroGrown(i, j int) {
	if i < j && b.slab.pool.config.Zero == ZeroOnGet {
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
	return b.slab.pool.Copy(b.Bytes())
}

// Pinned is how many bytes of slab this reference keeps from its pool, however few it shows.
func (b Buffer) Pinned() int {
	if b.slab == nil {
		return 0
	}
	return len(b.slab.mem)
}

// Shrink takes ownership of b and returns its bytes in a slab that fits them. It copies if that
// frees at least half of what b pins; otherwise, and for foreign memory, it returns b itself. Worth
// calling before keeping a small view of a big buffer for long.
func (b Buffer) Shrink() Buffer {
	s := b.slab
	if s == nil || s.foreign || 2*s.pool.ClassSize(max(b.n, 1)) > len(s.mem) {
		return b
	}
	fit := b.Clone()
	b.Free()
	return fit
}
