package slab

import (
	"sync/atomic"

	"github.com/tarn-go/tarn/internal/publish"
	"github.com/tarn-go/tarn/internal/track"
)

// This file is the slow path of Get: making slabs, and the work due for some of them.

// hand makes an idle slab, which the caller owns, into a reference to its first n bytes. The budget has been charged
// charge bytes for it already.
func (d *Depot) hand(s *Slab, n int, charge int64) (*Slab, Key) {
	st := atomic.LoadUint64(&s.state)
	if generation(st) == 0 { // wrapped: a stale key of its first cycles could pass for a new one
		s.discard()
		s = d.makeSlab(s.class)
		st = atomic.LoadUint64(&s.state)
	}
	s.verifyPoison()
	if !s.retained {
		s.pending |= pendingDiscard
	}
	if !s.foreign {
		d.prepare(s, st, n, charge)
	}
	key, next := st+getWeight, st+getWeight
	if d.config.Tracks != nil && sampleHash(generation(st)) <= d.samples.track {
		d.track(s, generation(st), n)
		key, next = st|tracked|uint64(track.First), st+1
	}
	if s.pending == 0 {
		next |= ordinary
	}
	publish.Store(&s.state, next)
	return s, Key(key)
}

// prepare does what config and sampling ask for before a slab of the depot's own is handed out. If a function of the
// config panics, s is idle and out of reach: the garbage collector finds it.
func (d *Depot) prepare(s *Slab, st uint64, n int, charge int64) {
	if d.config.Loaned != nil {
		s.loan = d.loans.Add(1)
		s.pending |= pendingObserve
		d.config.Loaned(s.loan, n)
	}
	if d.config.Recorder != nil && sampleHash(generation(st)) <= d.samples.record {
		d.config.Recorder.Size(n)
		s.born = d.cycle.Load()
		s.pending |= pendingLifetime
	}
	if d.config.Budget != nil && charge == 0 {
		charge = int64(len(s.mem))
		d.config.Budget.Charge(charge)
	}
	if charge != 0 {
		s.charge = charge
		s.pending |= pendingCharge
	}
	switch d.config.Zero {
	case ZeroOnGet:
		clear(s.mem[:n])
	case ZeroOnFree:
		s.pending |= pendingZero
	}
}

// track begins to track the references to a slab that is about to be handed out.
func (d *Depot) track(s *Slab, generation uint32, n int) {
	const skip = 4 // track, hand, Get, the method of tarn
	s.track.Store(d.config.Tracks.Begin(generation, n, len(s.mem), d.cycle.Load(), s.track.Load(), skip))
	s.pending |= pendingUntrack
	if d.config.Poison == PoisonTracked && !s.foreign {
		s.pending |= pendingPoison
	}
}

// makeSlab allocates a slab of a class, retained if the bound has room for it.
func (d *Depot) makeSlab(c *class) *Slab {
	c.misses.Add(1)
	if d.config.Guard != nil {
		return d.makeGuarded(c)
	}
	d.own(int64(c.size))
	if !d.reserve(int64(c.size)) {
		c.gets.Add(1)
		return newTransient(d, c, make([]byte, c.size))
	}
	s := newSlab(d, c, make([]byte, c.size))
	s.retained = true
	c.register(s)
	d.startTrimming()
	return s
}

// makeGuarded makes a slab in pages of its own, or an ordinary one, reported once, where that is not
// possible. Neither is retained. A leaked one is never unmapped, as slices of it may be in use.
func (d *Depot) makeGuarded(c *class) *Slab {
	mem := d.config.Guard.Lend(c.size)
	todo := pendingGuard
	if mem == nil {
		if d.unguarded.CompareAndSwap(false, true) { // Report may itself use the depot
			d.config.Report(Fault{Kind: Unguarded, Op: "Get", Size: c.size})
		}
		mem, todo = make([]byte, c.size), 0
	}
	s := newTransient(d, c, mem)
	s.pending = todo
	d.own(int64(c.size))
	c.gets.Add(1)
	return s
}

// makeOversize allocates a slab above the largest class, which is never retained.
func (d *Depot) makeOversize(n int) *Slab {
	s := newTransient(d, nil, make([]byte, n))
	d.own(int64(n))
	d.large.Add(int64(n))
	d.oversize.gets.Add(1)
	return s
}

// own counts the bytes of a new slab.
func (d *Depot) own(n int64) {
	owned := d.owned.Add(n)
	for {
		peak := d.peak.Load()
		if owned <= peak || d.peak.CompareAndSwap(peak, owned) {
			return
		}
	}
}

// reserve takes n bytes of the bound on retention, if they are free.
func (d *Depot) reserve(n int64) bool {
	for {
		r := d.reserved.Load()
		if r+n > d.config.Retain {
			return false
		}
		if d.reserved.CompareAndSwap(r, r+n) {
			return true
		}
	}
}

// forget takes a slab out of the books: given up while idle, freed and not retained, or leaked.
func (d *Depot) forget(s *Slab, state uint64) {
	size := int64(len(s.mem))
	if s.retained {
		if count(state) == 0 {
			s.class.dropped.Add(1)
		}
		s.class.unregister(s, state)
		d.owned.Add(-size)
		d.reserved.Add(-size) // last: it must not be counted together with the slab that replaces it
		return
	}
	t := s.tally()
	if !s.foreign {
		d.owned.Add(-size)
	}
	if t == &d.oversize {
		d.large.Add(-size)
	}
	if count(state) > 0 {
		t.leaked.Add(1)
		return
	}
	t.frees.Add(1)
	t.dropped.Add(1)
}

// tally is where a slab that is not retained is counted.
func (s *Slab) tally() *tally {
	switch {
	case s.class != nil:
		return &s.class.tally
	case s.foreign:
		return &s.depot.foreign
	default:
		return &s.depot.oversize
	}
}
