package adapt

import "github.com/tarn-go/tarn"

// arrowAlign is the alignment that Arrow's columnar format recommends for buffers.
const arrowAlign = 64

// ArrowAllocator is an Arrow memory.Allocator whose memory is a tarn.Pool's. It is safe for
// concurrent use. Memory that is never freed stays in use in the pool's statistics, and its checks
// name it.
//
// As from Arrow's own allocators, memory is zeroed and begins at a multiple of 64 bytes.
type ArrowAllocator struct {
	pool *tarn.Pool
	out  registry[tarn.Buffer]
}

// Arrow returns an Arrow memory.Allocator that takes its memory from p, which it borrows. It panics
// if p is nil.
func Arrow(p *tarn.Pool) *ArrowAllocator {
	if p == nil {
		panic("adapt: Arrow of a nil pool")
	}
	return &ArrowAllocator{pool: p}
}

// Allocate returns size zeroed bytes, valid until Free or Reallocate. It never fails; it panics if
// size is negative. No bytes are an empty slice that need not be freed.
func (a *ArrowAllocator) Allocate(size int) []byte {
	b := a.get(size)
	clear(b)
	return b
}

func (a *ArrowAllocator) get(size int) []byte {
	buf := a.pool.Get(size)
	if size == 0 {
		return []byte{}
	}
	if off := misalignment(buf); off != 0 {
		// Rare: most slabs are larger than a cache line and begin at one.
		buf.Free()
		buf = a.pool.Get(size + arrowAlign - 1)
		off = misalignment(buf)
		buf = buf.Narrow(off, off+size)
	}
	b := buf.Bytes()
	a.out.put(firstByte(b), buf)
	return b
}

// misalignment returns how many bytes of b come before the first that is aligned.
func misalignment(b tarn.Buffer) int {
	return int(-firstByte(b.Bytes()) & (arrowAlign - 1))
}

// Reallocate returns size bytes that begin with those of b and are zero beyond them, and takes b
// back: it must not be used afterwards. The memory stays where it is if it is large enough and not
// more than twice what is needed; a b of size bytes is returned as it is. A b of another length that this
// allocator did not hand out is copied, too, and is refused as in Free. A negative size panics.
func (a *ArrowAllocator) Reallocate(size int, b []byte) []byte {
	if size == len(b) {
		return b
	}
	if size > 0 && size <= cap(b) && size > cap(b)/2 {
		if _, ok := a.out.get(firstByte(b)); ok {
			old := len(b)
			b = b[:size]
			clear(b[min(old, size):])
			return b
		}
	}
	grown := a.get(size)
	n := copy(grown, b)
	clear(grown[n:])
	a.Free(b)
	return grown
}

// Free takes back memory of Allocate or Reallocate, at any length but from its first byte. It must
// not be used afterwards. Any other memory, and such as was freed before, is refused and counted.
// A slice without memory is ignored, as Arrow frees what it never filled.
func (a *ArrowAllocator) Free(b []byte) {
	if cap(b) == 0 {
		return
	}
	buf, ok := a.out.take(firstByte(b))
	if !ok {
		a.pool.Refuse(b)
		return
	}
	buf.Free()
}
