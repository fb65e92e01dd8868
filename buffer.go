package tarn

import "sync/atomic"

// Buffer is one reference to some bytes of a slab (rule 1). It is a small value: copying it copies
// no bytes and makes no new reference, so of all copies one is freed, once. The zero Buffer is
// empty, and freeing it does nothing.
//
// All methods are O(1) and allocate nothing, but for those that say they copy. A method called on a
// Buffer whose slab has gone home panics with a *Misuse; bounds are checked as a slice's are.
// References to one slab may be used from different goroutines (rule 5).
type Buffer struct {
	slab *slab
	key  uint64 // see state.go
	off  int
	n    int
}

// identity is the number by which checks know a reference; 0 for one they do not track.
func (b Buffer) identity() uint32 {
	if b.key&tracked == 0 {
		return 0
	}
	return uint32(b.key & countMask)
}

// IsZero tells whether b is the zero Buffer, which holds no reference.
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
	if !current(atomic.LoadUint64(&s.state), b.key) || b.key&tracked != 0 {
		b.inspect("Bytes")
	}
	return s.mem[b.off : b.off+b.n : b.off+b.n]
}

// Ref returns another reference to the same bytes, to be freed on its own.
func (b Buffer) Ref() Buffer { return b.another("Ref", b.off, b.n) }

// Slice returns another reference, to b[i:j], to be freed on its own; b stays the caller's. An
// empty slice holds its slab like any other.
func (b Buffer) Slice(i, j int) Buffer {
	if uint(j) > uint(b.n) || uint(i) > uint(j) {
		outOfBounds(b.n, i, j)
	}
	return b.another("Slice", b.off+i, j-i)
}

// Split takes ownership of b and returns references to b[:n] and b[n:], each to be freed.
func (b Buffer) Split(n int) (head, tail Buffer) {
	s := b.slab
	if uint(n) > uint(b.n) {
		outOfBounds(b.n, n, b.n)
	}
	if b.key&special != 0 || b.key&countMask < 2 {
		return b.splitSlowly(n)
	}
	if !current(atomic.LoadUint64(&s.state), b.key) {
		b.stale("Split")
	}
	return Buffer{s, b.key | foretold, b.off, n}, Buffer{s, b.key - 1, b.off + n, b.n - n}
}

// splitSlowly is Split of nothing, or of a reference that is tracked or has no weight to share.
func (b Buffer) splitSlowly(n int) (head, tail Buffer) {
	if b.slab == nil {
		return b, b
	}
	if b.key&tracked == 0 {
		if !retain(&b.slab.state, b.key, whole-1) {
			b.stale("Split")
		}
		b.key = b.key&genMask | whole
		return b.Split(n)
	}
	tail = b.anotherTracked("Split", b.off+n, b.n-n)
	b.n = n
	return b.resized(), tail
}

// Narrow takes ownership of b and returns the same reference, seen through b[i:j]. It touches no
// count: the cheapest way to drop bytes at either end.
func (b Buffer) Narrow(i, j int) Buffer {
	if uint(j) > uint(b.n) || uint(i) > uint(j) {
		outOfBounds(b.n, i, j)
	}
	b.off += i
	b.n = j - i
	return b.resized()
}

// another is a further reference to n bytes of b's slab from off. It weighs one.
func (b Buffer) another(op string, off, n int) Buffer {
	s := b.slab
	if s == nil {
		return b
	}
	if b.key&tracked != 0 {
		return b.anotherTracked(op, off, n)
	}
	key := b.key | ordinary
	right := key&countMask < maxCount && atomic.CompareAndSwapUint64(&s.state, key, key+1)
	if !right && !retain(&s.state, b.key, 1) {
		b.stale(op)
	}
	return Buffer{s, key + 1, off, n}
}

// outOfBounds panics with the runtime's own error about b[i:j] of n bytes.
func outOfBounds(n, i, j int) {
	_ = make([]struct{}, n)[i:j]
	panic("unreachable")
}

// Unique tells whether this is the only reference to its slab, so that its bytes may be written
// (rule 3) and its room grown into. The zero Buffer is unique.
func (b Buffer) Unique() bool {
	s := b.slab
	if s == nil {
		return true
	}
	st := atomic.LoadUint64(&s.state)
	if !current(st, b.key) || b.key&tracked != 0 {
		b.inspect("Unique")
	}
	return count(st) == weight(b.key)
}

// Free gives this reference up. The last one to its slab sends the slab home. Freeing a reference
// whose slab has gone home panics; so does, with CheckAll, freeing one twice while others live. It
// may be called on any goroutine.
func (b Buffer) Free() {
	// Short enough to be inlined (the compiler's limit is 80, and this costs 79), which saves one of
	// many references the call.
	if int32(b.key) >= 0 || !atomic.CompareAndSwapUint64(&b.slab.state, b.key, b.key-1) {
		b.free() // not foretold, or not as foretold
	}
}

// free is Free of what was not foretold.
func (b Buffer) free() {
	s := b.slab
	if s == nil {
		return
	}
	if b.key&special == 0 && atomic.CompareAndSwapUint64(&s.state, b.key|ordinary, nextGeneration(b.key)) {
		s.class.idle.Put(s) // it was the only one, and nothing is due
		return
	}
	if b.key&tracked != 0 {
		b.endTracked("Free")
	}
	switch drop(&s.state, b.key, weight(b.key)) {
	case droppedStale:
		b.stale("Free")
	case droppedLast:
		s.class.idle.Put(s)
	case droppedDue:
		s.home()
	}
}
