package tarn

import (
	"github.com/tarn-go/tarn/internal/slab"
)

// Buffer is one reference to some bytes of a slab (rule 1). It is a small value: copying it copies
// no bytes and makes no new reference, so of all copies one is freed, once. The zero Buffer is
// empty, and freeing it does nothing.
//
// All methods are O(1) and allocate nothing, except those that say they copy. A method called on a
// Buffer whose slab has been freed panics with a *Misuse, except for Len, IsZero, Pinned and those that
// print, which do not look at the slab's contents, and except for Narrow, and Shrink and Join where they
// have nothing to do: these hand the reference on, and panic only where checks track it; the first use of
// what they return panics. Bounds are checked as a slice's are. References to one slab may be used from
// different goroutines (rule 5).
type Buffer struct {
	slab *slab.Slab
	key  slab.Key
	off  int
	n    int
}

// Four fields of a word each, which the compiler keeps in registers; with a fifth it keeps the struct in memory. With another one
// this does not compile.
var _ = Buffer{nil, 0, 0, 0}

// IsZero reports whether b is the zero Buffer, which holds no reference.
func (b Buffer) IsZero() bool { return b.slab == nil }

// Len is the number of bytes. It is known without the slab, and so never panics.
func (b Buffer) Len() int { return b.n }

// Bytes returns the bytes themselves, len and cap both b.Len(): valid until this reference is
// freed, to be written only while Unique (rule 3).
func (b Buffer) Bytes() []byte {
	s := b.slab
	if s == nil {
		return nil
	}
	if s.Suspect(b.key) {
		s.Verify(b.key, "Bytes")
	}
	return s.Mem()[b.off : b.off+b.n : b.off+b.n]
}

// Ref returns another reference to the same bytes, to be freed on its own.
func (b Buffer) Ref() Buffer {
	b.key = b.slab.Ref(b.key, "Ref", b.n)
	return b
}

// Slice returns another reference, to b[i:j], to be freed on its own; b stays the caller's. An
// empty slice holds its slab like any other.
func (b Buffer) Slice(i, j int) Buffer {
	if uint(j) > uint(b.n) || uint(i) > uint(j) {
		outOfBounds(b.n, i, j)
	}
	return Buffer{b.slab, b.slab.Ref(b.key, "Slice", j-i), b.off + i, j - i}
}

// Split takes ownership of b and returns references to b[:n] and b[n:], each to be freed.
func (b Buffer) Split(n int) (head, tail Buffer) {
	if uint(n) > uint(b.n) {
		outOfBounds(b.n, n, b.n)
	}
	if b.slab == nil {
		return b, b
	}
	var h, t slab.Key
	if b.key.Divisible() && !b.slab.Stale(b.key) {
		h, t = b.key.Divide()
	} else {
		h, t = b.slab.Split(b.key, n, b.n-n)
	}
	return Buffer{b.slab, h, b.off, n}, Buffer{b.slab, t, b.off + n, b.n - n}
}

// Narrow takes ownership of b and returns the same reference, seen through b[i:j]. It touches no
// count: the cheapest way to drop bytes at either end.
func (b Buffer) Narrow(i, j int) Buffer {
	if uint(j) > uint(b.n) || uint(i) > uint(j) {
		outOfBounds(b.n, i, j)
	}
	b.off += i
	b.n = j - i
	return b.moved("Narrow")
}

// moved returns b, of which the caller took ownership. Where checks track it, uses of the value that
// the caller was given are found from now on.
func (b Buffer) moved(op string) Buffer {
	if b.key.Identity() != 0 {
		b.key = b.slab.Move(b.key, op, b.n)
	}
	return b
}

// handedOver is moved for a reference that Slab.Suspect is true of: a stale one panics.
func (b Buffer) handedOver(op string) Buffer {
	b.key = b.slab.Move(b.key, op, b.n)
	return b
}

// verifyTracked panics if checks track b and it is stale. Without checks it touches no slab.
func (b Buffer) verifyTracked(op string) {
	if b.key.Identity() != 0 {
		b.slab.Verify(b.key, op)
	}
}

// outOfBounds panics with the runtime's own error about b[i:j] of n bytes.
func outOfBounds(n, i, j int) {
	_ = make([]struct{}, n)[i:j]
	panic("unreachable")
}

// Unique reports whether this is the only reference to its slab, so that its bytes may be written
// (rule 3) and its room grown into. The zero Buffer is unique.
func (b Buffer) Unique() bool { return b.slab == nil || b.slab.Unique(b.key) }

// Free gives this reference up. The last Free of a slab's references returns the slab to its pool.
// Freeing a reference whose slab has been returned panics; so does, with CheckAll, freeing one twice
// while others live. It may be called on any goroutine.
func (b Buffer) Free() { b.slab.Free(b.key) }

// Join takes ownership of b and next and returns one reference to the bytes of both, if next begins
// in the same slab where b ends. Otherwise it returns b and false, and both stay the caller's.
func (b Buffer) Join(next Buffer) (Buffer, bool) {
	s := b.slab
	if s == nil || s != next.slab || b.off+b.n != next.off || !b.key.SameCycle(next.key) {
		b.verifyTracked("Join")
		next.verifyTracked("Join")
		return b, false
	}
	n := b.n + next.n
	return Buffer{s, s.Join(b.key, next.key, n), b.off, n}, true
}

// owner is the pool that made b's slab.
func (b Buffer) owner() *Pool { return b.slab.Owner().(*Pool) }

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
