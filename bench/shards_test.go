package bench

import (
	"sync"
	"sync/atomic"
)

// shards restates the scheme of jsign/bufpool: a sync.Pool of shards, each with a bump pointer and a
// count of references, and one retry when the shard at hand is full. A shard starts again at its
// beginning when all its references are gone.
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
	s := p.shard()
	if full := s.off+n >= len(s.b); full && s.refs.Load() == 0 {
		s.off = 0
	} else if full {
		other := p.shard()
		p.pool.Put(s)
		s = other
		if s.off+n >= len(s.b) {
			if s.refs.Load() == 0 {
				s.off = 0
			} else {
				p.pool.Put(s)
				s = &shard{b: make([]byte, p.size)}
			}
		}
	}
	s.refs.Add(1)
	b := s.b[s.off : s.off+n : s.off+n]
	s.off += n
	p.pool.Put(s)
	return piece{b, s}
}

func (p *shards) shard() *shard {
	if s, ok := p.pool.Get().(*shard); ok {
		return s
	}
	return &shard{b: make([]byte, p.size)}
}

func (b piece) done() {
	if b.s != nil {
		b.s.refs.Add(-1)
	}
}
