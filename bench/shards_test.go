package bench

import (
	"sync"
	"sync/atomic"
)

// shards restates the scheme of jsign/bufpool: a sync.Pool of shards, each with a bump pointer and a
// count of references, and one retry when the current shard is full. A shard starts again at its
// beginning when all its references are gone.
//
// As there, shards are put back to the sync.Pool by deferred calls, so that the retry does not get the
// shard that was full; the compiler allocates one record for them. getLean has no deferred calls.
type shards struct {
	size int
	pool sync.Pool // of *shard
}

type shard struct {
	b    []byte
	off  int
	refs atomic.Int64
}

type piece struct {
	b []byte
	s *shard
}

func newShards(size int) *shards { return &shards{size: size} }

func (p *shards) get(n int) piece {
	if n == 0 || n >= p.size {
		return piece{b: make([]byte, n)}
	}
	var found *shard
	for range 2 {
		s := p.shard()
		defer p.pool.Put(s)
		if s.fits(n) {
			found = s
			break
		}
	}
	if found == nil {
		found = p.fresh()
		defer p.pool.Put(found)
	}
	return found.cut(n)
}

// getLean is get without deferred calls, the fastest form of the scheme.
func (p *shards) getLean(n int) piece {
	if n == 0 || n >= p.size {
		return piece{b: make([]byte, n)}
	}
	s := p.shard()
	if !s.fits(n) {
		full := s
		if s = p.shard(); !s.fits(n) {
			p.pool.Put(s)
			s = p.fresh()
		}
		p.pool.Put(full)
	}
	b := s.cut(n)
	p.pool.Put(s)
	return b
}

func (p *shards) shard() *shard {
	if s, ok := p.pool.Get().(*shard); ok {
		return s
	}
	return p.fresh()
}

func (p *shards) fresh() *shard { return &shard{b: make([]byte, p.size)} }

// fits reports whether n bytes can be cut off; it starts at the beginning again if nothing of s is in use.
func (s *shard) fits(n int) bool {
	if s.off+n < len(s.b) {
		return true
	}
	if s.refs.Load() == 0 {
		s.off = 0
		return true
	}
	return false
}

func (s *shard) cut(n int) piece {
	s.refs.Add(1)
	b := s.b[s.off : s.off+n : s.off+n]
	s.off += n
	return piece{b, s}
}

func (b piece) done() {
	if b.s != nil {
		b.s.refs.Add(-1)
	}
}
