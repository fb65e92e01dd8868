package tarn

import (
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/tarn-go/tarn/internal/hint"
)

// MaxChunk is the largest chunk of an Arena in bytes.
const MaxChunk = 1 << 23

// Arena cuts many small Buffers out of chunks, each a slab of its pool, by bumping a pointer. It is
// safe for concurrent use and allocates nothing in steady state. A chunk goes home when the last
// Buffer cut from it is freed, so keep Buffers of like lifetimes in one arena.
//
// The bytes of a Buffer from an arena are its caller's to write until shared by Ref, Slice or
// Split. Unique, which speaks of the whole slab, reports false while it has neighbours, and there
// is no room to grow into.
type Arena struct {
	pool    *Pool
	chunk   int
	largest int // bytes; a longer Buffer comes from the pool
	shards  []arenaShard
}

// arenaShard is where some of the goroutines cut.
type arenaShard struct {
	current atomic.Pointer[slab] // nil, or a chunk that is being cut
	mu      sync.Mutex           // held to replace the chunk
	tracked Buffer               // the chunk that is being cut, when checks track it
	used    int                  // bytes cut of tracked
	_       [72]byte             // 128 bytes on 64 bits, two cache lines
}

// A chunk's bump word counts the Buffers cut from it (above) and the bytes they take (below), so
// that one atomic addition does both. References for all Buffers that could ever be cut are taken
// beforehand, and the rest is given back when the chunk is used up, so Get touches no other word.
// Additions that come too late only push the bytes further beyond the end; to carry into the count
// it would take more than 2^17 goroutines at it at once, as whoever fails brings a new chunk.
const (
	bumpBits         = 40
	bumpCount uint64 = 1 << bumpBits
	bumpBytes uint64 = bumpCount - 1
	sealed    uint64 = bumpCount / 2 // of a slab that is nobody's chunk: larger than any chunk
)

// NewArena makes an arena that cuts chunks of the given size in bytes, at least 64 and at most
// MaxChunk, otherwise the nearest of these. Buffers longer than a quarter of it come from the pool.
// It holds a chunk for each of its shards that was used, at most 64, until Free: goroutines are
// spread over eight or more shards for each processor, as two at one chunk slow each other down.
func NewArena(p *Pool, chunk int) *Arena {
	chunk = min(max(chunk, 64), MaxChunk)
	shards := min(8<<bits.Len(uint(runtime.GOMAXPROCS(0)-1)), 64)
	a := &Arena{pool: p, chunk: chunk, largest: chunk / 4, shards: make([]arenaShard, shards)}
	runtime.SetFinalizer(a, (*Arena).Free) // a forgotten arena must not count as a leak
	return a
}

// Get returns a Buffer of n bytes, contents undefined, to be freed like any other. A negative n
// panics.
func (a *Arena) Get(n int) Buffer {
	if uint(n-1) >= uint(a.largest) {
		return a.pool.Get(n) // nothing, or too much
	}
	shard := &a.shards[hint.Goroutine()&uint32(len(a.shards)-1)]
	s := shard.current.Load()
	if s == nil {
		return a.refill(shard, n)
	}
	size := uint64(len(s.mem))
	after := s.bump.Add(bumpCount | uint64(n))
	end := after & bumpBytes
	if end <= size { // one of the references taken beforehand is ours, so the generation stands
		return Buffer{s, s.chunkKey - after>>bumpBits, int(end) - n, n}
	}
	s.overrun(after, n)
	return a.refill(shard, n)
}

// overrun settles a chunk if the addition of n bytes that made its bump word was the first to run
// over the end: then nobody else will. A chunk that has been replaced, even one that went home since,
// is sealed, and all additions to it come too late.
func (s *slab) overrun(after uint64, n int) {
	if after&bumpBytes-uint64(n) <= uint64(len(s.mem)) {
		s.settle(int(after>>bumpBits) - 1)
	}
}

// settle gives the references that were taken beforehand and not handed out back, the arena's own
// included.
func (s *slab) settle(handed int) {
	s.bump.Store(sealed)
	switch drop(&s.state, atomic.LoadUint64(&s.state), whole+uint64(len(s.mem)-handed)) {
	case droppedLast:
		s.class.idle.Put(s)
	case droppedDue:
		s.home()
	}
}

// refill cuts n bytes off a new chunk, unless somebody has brought one meanwhile or is about to.
func (a *Arena) refill(shard *arenaShard, n int) Buffer {
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if !shard.tracked.IsZero() {
		return a.cutTracked(shard, n)
	}
	if s := shard.current.Load(); s != nil {
		after := s.bump.Add(bumpCount | uint64(n))
		if end := after & bumpBytes; end <= uint64(len(s.mem)) {
			return Buffer{s, s.chunkKey - after>>bumpBits, int(end) - n, n}
		}
		s.overrun(after, n)
	}
	chunk := a.pool.Get(a.chunk)
	if chunk.identity() != 0 {
		shard.current.Store(nil)
		shard.tracked, shard.used = chunk, 0
		return a.cutTracked(shard, n)
	}
	s := chunk.slab
	takeAhead(s)
	s.chunkKey = chunk.key&genMask | foretold | (whole + uint64(len(s.mem)) + 1)
	s.bump.Store(uint64(n) | bumpCount)
	shard.current.Store(s)
	return Buffer{s, s.chunkKey - 1, 0, n}
}

// takeAhead takes a reference for each byte of a chunk, the most Buffers that it can be cut into.
func takeAhead(s *slab) { atomic.AddUint64(&s.state, uint64(len(s.mem))) }

// cutTracked cuts n bytes off a chunk whose references are tracked one by one.
func (a *Arena) cutTracked(shard *arenaShard, n int) Buffer {
	if shard.used+n > shard.tracked.Len() {
		shard.tracked.Free()
		shard.tracked, shard.used = a.pool.Get(a.chunk), 0
	}
	b := shard.tracked.Slice(shard.used, shard.used+n)
	shard.used += n
	return b
}

// Free gives the arena's hold on its chunks up: each goes home with the last Buffer cut from it.
// The arena may be used again. Safe for concurrent use.
func (a *Arena) Free() {
	for i := range a.shards {
		a.shards[i].release()
	}
}

func (shard *arenaShard) release() {
	shard.mu.Lock()
	defer shard.mu.Unlock()
	shard.tracked.Free()
	shard.tracked = Buffer{}
	s := shard.current.Swap(nil)
	if s == nil {
		return
	}
	if word := s.bump.Swap(sealed); word&bumpBytes <= uint64(len(s.mem)) {
		s.settle(int(word >> bumpBits))
	} // otherwise whoever used it up settles
}
