package slab

import (
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/tarn-go/tarn/internal/hint"
)

// MaxChunk is the largest chunk of an Arena in bytes, MinChunk the smallest.
const (
	MaxChunk = 1 << 23
	MinChunk = 64
)

// A piece is cut from a chunk if that gives manyCuts such pieces, or fewCuts of at most minLargest bytes:
// getting a chunk costs as much as several Gets from the depot.
const (
	manyCuts   = 16
	fewCuts    = 4
	minLargest = 4 << 10
)

// Arena cuts many small references out of chunks, each a slab of its depot, by bumping a pointer. It
// is safe for concurrent use once Init has returned.
type Arena struct {
	depot   *Depot
	chunk   int
	largest int // bytes; a longer reference gets a separate slab
	shards  []arenaShard
}

// arenaShard is where some of the goroutines cut.
type arenaShard struct {
	current atomic.Pointer[Slab] // nil, or a chunk that is being cut
	mu      sync.Mutex           // held to replace the chunk
	tracked *Slab                // the chunk that is being cut, when checks track it
	key     Key                  // the arena's reference to tracked
	used    int                  // bytes cut of tracked
	_       [shardPadding]byte
}

// A chunk's bump word counts the references cut from it (above) and the bytes they take (below), so
// that one atomic addition does both. References for all that could ever be cut are taken ahead, and
// the rest is given back when the chunk is used up, so Get touches no other word. Additions that come
// after the end only push the bytes further beyond it; to carry into the count it would take more than
// 2^17 goroutines at once, as each that fails gets a new chunk.
const (
	bumpBits         = 40
	bumpCount uint64 = 1 << bumpBits
	bumpBytes uint64 = bumpCount - 1
	sealed    uint64 = bumpCount / 2 // of a slab that is not a chunk at present: larger than any chunk
)

const (
	_ = uint(1<<(64-bumpBits) - 1 - MaxChunk) // the count holds a reference for each byte
	_ = uint(maxCount - MaxChunk - getWeight) // and so does the state's sum
	_ = uint(sealed>>17 - MaxChunk/4)         // 2^17 additions after the end do not carry
)

// Init makes a an arena that cuts chunks of the given size in bytes, from MinChunk to MaxChunk.
func (a *Arena) Init(d *Depot, chunk int) {
	shards := min(8<<bits.Len(uint(runtime.GOMAXPROCS(0)-1)), 64)
	a.depot, a.chunk = d, chunk
	a.largest = max(chunk/manyCuts, min(chunk/fewCuts, minLargest))
	a.shards = make([]arenaShard, shards)
}

// Get returns a slab, a reference and the offset of its n bytes; nil if n is 0. A negative n panics.
func (a *Arena) Get(n int) (*Slab, Key, int) {
	if uint(n-1) >= uint(a.largest) { // nothing, or too much
		if a.depot == nil {
			panic("tarn: the zero Arena is not ready for use; make one with NewArena")
		}
		s, key := a.depot.Get(n)
		return s, key, 0
	}
	shard := &a.shards[hint.Goroutine()&uint32(len(a.shards)-1)]
	s := shard.current.Load()
	if s == nil {
		return a.refill(shard, n)
	}
	after := s.bump.Add(bumpCount | uint64(n))
	end := after & bumpBytes
	if end <= uint64(len(s.mem)) { // one of the references taken ahead is this one, so the generation cannot change
		return s, s.chunkKey - Key(after>>bumpBits), int(end) - n
	}
	s.overrun(after, n)
	return a.refill(shard, n)
}

// overrun closes a chunk if the addition of n bytes that made its bump word after was the first to
// exceed its size; then no other addition is. A chunk that has been replaced, even one that was freed
// since, is sealed, and all additions to it fail.
func (s *Slab) overrun(after uint64, n int) {
	if after&bumpBytes-uint64(n) <= uint64(len(s.mem)) {
		s.closeChunk(int(after>>bumpBits) - 1)
	}
}

// closeChunk gives back the references that were taken ahead and not handed out, the arena's own
// included.
func (s *Slab) closeChunk(handed int) {
	s.bump.Store(sealed)
	switch drop(&s.state, Key(atomic.LoadUint64(&s.state)&genMask), getWeight+uint64(s.cuttable()-handed)) {
	case droppedLast:
		s.class.idle.Put(s)
	case droppedPending:
		s.finish()
	}
}

// refill cuts n bytes off a new chunk, unless another goroutine has installed one meanwhile.
func (a *Arena) refill(shard *arenaShard, n int) (*Slab, Key, int) {
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if shard.tracked != nil {
		if shard.used+n <= a.chunk {
			return shard.cutTracked(n)
		}
		shard.dropTracked()
	}
	if s := shard.current.Load(); s != nil {
		after := s.bump.Add(bumpCount | uint64(n))
		if end := after & bumpBytes; end <= uint64(len(s.mem)) {
			return s, s.chunkKey - Key(after>>bumpBits), int(end) - n
		}
		s.overrun(after, n)
	}
	s, key := a.depot.Get(a.chunk)
	if key.Identity() != 0 {
		shard.current.Store(nil)
		shard.tracked, shard.key, shard.used = s, key, 0
		return shard.cutTracked(n)
	}
	if a.depot.config.Zero == ZeroOnGet {
		clear(s.mem[a.chunk:]) // Get has cleared what it was asked for
	}
	ahead := s.cuttable()
	start := len(s.mem) - ahead
	atomic.AddUint64(&s.state, uint64(ahead))
	s.chunkKey = Key(uint64(key)&genMask | predicted | (getWeight + uint64(ahead) + 1))
	s.bump.Store(uint64(start+n) | bumpCount)
	shard.current.Store(s)
	return s, s.chunkKey - 1, start
}

// cuttable is how many bytes of a chunk are cut, its last ones. A reference for each, the most that they can be cut
// into, is taken ahead; a slab may be longer than MaxChunk, and its state does not count as many.
func (s *Slab) cuttable() int { return min(len(s.mem), MaxChunk) }

// cutTracked cuts n bytes, which it has, off a chunk whose references are tracked one by one.
func (shard *arenaShard) cutTracked(n int) (*Slab, Key, int) {
	off := shard.used
	shard.used += n
	return shard.tracked, shard.tracked.Ref(shard.key, "Get", n), off
}

func (shard *arenaShard) dropTracked() {
	shard.tracked.Free(shard.key)
	shard.tracked, shard.key, shard.used = nil, 0, 0
}

// Free gives up the arena's hold on its chunks: each is freed with the last reference cut from it.
func (a *Arena) Free() {
	for i := range a.shards {
		a.shards[i].release()
	}
}

func (shard *arenaShard) release() {
	shard.mu.Lock()
	defer shard.mu.Unlock()
	shard.dropTracked()
	s := shard.current.Swap(nil)
	if s == nil {
		return
	}
	if word := s.bump.Swap(sealed); word&bumpBytes <= uint64(len(s.mem)) {
		s.closeChunk(int(word >> bumpBits))
	} // otherwise the goroutine that exceeded it closes it
}
