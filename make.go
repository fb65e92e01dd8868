package tarn

import (
	"sync/atomic"

	"github.com/tarn-go/tarn/internal/publish"
)

// This file is the long way of Get: making slabs, and what is due for some of them.

// hand makes an idle slab, which the caller owns, into a reference to its first n bytes.
func (p *Pool) hand(s *slab, n int) Buffer {
	st := atomic.LoadUint64(&s.state)
	if generation(st) == 0 { // wrapped: a stale handle of its first cycles could pass for a new one
		s.discard()
		s = p.makeSlab(s.class)
		st = atomic.LoadUint64(&s.state)
	}
	if !s.kept {
		s.due |= dueCollect
	}
	if !s.foreign {
		p.prepare(s, st, n)
	}
	key, next := st+whole, st+whole
	if p.checks != nil && scatter(generation(st)) <= p.samples.check {
		key, next = st|tracked|p.track(s, n), st+1
	}
	if s.due == 0 {
		next |= ordinary
	}
	publish.Store(&s.state, next)
	return Buffer{s, key, 0, n}
}

// prepare does what config and sampling ask for before a slab of the pool's own is handed out.
func (p *Pool) prepare(s *slab, st uint64, n int) {
	p.observe(s, n)
	if p.record != nil && scatter(generation(st)) <= p.samples.record {
		p.record.size(n)
		s.born = p.cycle.Load()
		s.due |= dueLifetime
	}
	if p.budget != nil && s.charge == 0 {
		p.budget.debit(int64(len(s.mem)))
		s.charge = int64(len(s.mem))
	}
	if s.charge != 0 {
		s.due |= dueCharge
	}
	switch p.config.Zero {
	case ZeroOnGet:
		clear(s.mem[:n])
	case ZeroOnFree:
		s.due |= dueZero
	}
}

// makeSlab allocates a slab of a class, kept if the bound on retention has room for it.
func (p *Pool) makeSlab(c *class) *slab {
	c.misses.Add(1)
	if p.guard != nil {
		return p.makeGuarded(c)
	}
	p.own(int64(c.size))
	if !p.reserve(int64(c.size)) {
		c.gets.Add(1)
		return newFleetingSlab(p, c, make([]byte, c.size))
	}
	s := newSlab(p, c, make([]byte, c.size))
	s.kept = true
	c.register(s)
	return s
}

// makeOversize allocates a slab above the largest class, which is never kept.
func (p *Pool) makeOversize(n int) *slab {
	s := newFleetingSlab(p, nil, make([]byte, n))
	p.own(int64(n))
	p.large.Add(int64(n))
	p.oversize.misses.Add(1)
	p.oversize.gets.Add(1)
	return s
}

// own counts the bytes of a new slab.
func (p *Pool) own(n int64) {
	owned := p.owned.Add(n)
	for {
		peak := p.peak.Load()
		if owned <= peak || p.peak.CompareAndSwap(peak, owned) {
			return
		}
	}
}

// reserve takes n bytes of the bound on retention, if they are there.
func (p *Pool) reserve(n int64) bool {
	for {
		r := p.reserved.Load()
		if r+n > p.config.Retain {
			return false
		}
		if p.reserved.CompareAndSwap(r, r+n) {
			return true
		}
	}
}

// forget takes a slab out of the books: given up while idle, freed and not kept, or leaked.
func (p *Pool) forget(s *slab, state uint64) {
	size := int64(len(s.mem))
	if s.kept {
		if count(state) == 0 {
			s.class.dropped.Add(1)
		}
		s.class.unregister(s, state)
		p.owned.Add(-size)
		p.reserved.Add(-size) // last: it must not be counted beside the slab that takes its place
		return
	}
	t := s.tally()
	if !s.foreign {
		p.owned.Add(-size)
	}
	if t == &p.oversize {
		p.large.Add(-size)
	}
	if count(state) > 0 {
		t.leaked.Add(1)
		return
	}
	t.frees.Add(1)
	t.dropped.Add(1)
}

// tally is where a slab that is not kept is counted.
func (s *slab) tally() *tally {
	switch {
	case s.class != nil:
		return &s.class.tally
	case s.foreign:
		return &s.pool.foreign
	default:
		return &s.pool.oversize
	}
}
