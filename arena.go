package tarn

import (
	"runtime"

	"github.com/tarn-go/tarn/internal/slab"
)

// MaxChunk is the largest chunk of an Arena in bytes.
const MaxChunk = slab.MaxChunk

// Arena cuts many small Buffers out of chunks, each a slab of its pool, by bumping a pointer. It is
// safe for concurrent use and allocates nothing in steady state. A chunk returns to the pool when the
// last Buffer cut from it is freed, so keep Buffers of similar lifetimes in one arena.
//
// The bytes of a Buffer from an arena are its caller's to write until shared by Ref, Slice or
// Split. Unique, which is about the whole slab, reports false while other Buffers are cut from it, and
// there is no room to grow into.
type Arena struct{ arena slab.Arena }

// NewArena makes an arena that cuts chunks of p (nil: Shared) of the given size in bytes, at least 64 and at
// most MaxChunk, otherwise the nearest of these. Buffers longer than a sixteenth of it come from the pool, except
// that those of up to 4 KiB are cut if a chunk gives four.
// It holds a chunk for each of its shards that was used, at most 64, until Free: goroutines are
// spread over eight or more shards for each processor, as two that use one chunk slow each other down.
func NewArena(p *Pool, chunk int) *Arena {
	if p == nil {
		p = Shared()
	}
	a := new(Arena)
	a.arena.Init(&p.depot, min(max(chunk, slab.MinChunk), MaxChunk))
	runtime.SetFinalizer(a, (*Arena).Free) // a forgotten arena must not count as a leak
	return a
}

// Get returns a Buffer of n bytes, contents undefined, to be freed like any other. A negative n
// panics.
func (a *Arena) Get(n int) Buffer {
	s, key, off := a.arena.Get(n)
	return Buffer{s, key, off, n}
}

// Free gives up the arena's hold on its chunks: each is freed with the last Buffer cut from it. The
// arena may be used again. Safe for concurrent use.
func (a *Arena) Free() { a.arena.Free() }
