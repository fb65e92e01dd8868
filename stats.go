package tarn

import "slices"

// Stats is a snapshot of a pool. Counters only grow. While the pool is in use the figures are of
// slightly different moments. Slabs that the garbage collector is just taking are in no figure until
// it has finalized them; otherwise each is exact when the pool is at rest.
type Stats struct {
	Name    string
	Check   CheckLevel   // in force
	Classes []ClassStats // the ladder in force, ascending; last, with Size 0, what exceeds the largest class

	Gets, Hits, Misses uint64 // Hits were served from idle memory, Misses allocated; Gets is their sum
	Frees              uint64 // slabs that came home
	Dropped            uint64 // slabs given up: not kept when freed, or idle for too long

	InUse, Idle  int64 // bytes of slabs out, and kept for reuse
	Peak         int64 // the most bytes that InUse and Idle ever were together
	InUseBuffers int64 // slabs out
	Retain       int64 // the bound on bytes kept
	Budget       int64 // the bound on bytes in use; 0 is none

	Leaked     uint64 // slabs collected by the garbage collector while referenced, at every check level
	Refused    uint64 // foreign slices that somebody tried to put into the pool
	OverBudget uint64 // Gets that went beyond Budget
	Waiting    int    // Acquires that wait now
	Wrapped    int64  // Buffers of foreign memory not given back yet
	Cycles     uint64 // garbage collections seen
}

// ClassStats are the figures of one size class.
type ClassStats struct {
	Size               int // bytes of a slab
	Gets, Hits, Misses uint64
	Frees, Dropped     uint64
	InUse, Idle        int64 // slabs
}

// Stats returns a snapshot. It takes a lock for each class that ever allocated and visits each kept
// slab, without stopping Get or Free.
func (p *Pool) Stats() Stats {
	ladder := p.Classes()
	st := Stats{
		Name: p.Name(), Check: p.config.Check, Classes: make([]ClassStats, 0, len(ladder)+1),
		Peak: p.peak.Load(), Retain: p.config.Retain, Budget: p.config.Budget,
		Refused: p.refused.Load(), Cycles: p.cycle.Load(),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.classes {
		b, out, idle := c.count()
		cs := classStats(b, &c.tally)
		cs.Size, cs.InUse, cs.Idle = c.size, out, idle
		st.Idle += cs.Idle * int64(c.size)
		st.InUse += cs.InUse * int64(c.size)
		st.add(cs, b.leaked)
		if _, inForce := slices.BinarySearch(ladder, c.size); inForce {
			st.Classes = append(st.Classes, cs)
		}
	}
	slices.SortFunc(st.Classes, func(a, b ClassStats) int { return a.Size - b.Size })

	var oversize, foreign books
	p.oversize.addTo(&oversize)
	cs := classStats(oversize, &p.oversize)
	cs.InUse = oversize.out()
	st.add(cs, oversize.leaked)
	st.Classes = append(st.Classes, cs)
	p.foreign.addTo(&foreign)
	st.Wrapped = foreign.out()
	st.Leaked += foreign.leaked

	st.InUse += p.large.Load()
	if p.budget != nil {
		p.budget.mu.Lock()
		st.OverBudget, st.Waiting = p.budget.over, len(p.budget.waiting)
		p.budget.mu.Unlock()
	}
	return st
}

// classStats derives a class's counters from its books.
func classStats(b books, t *tally) ClassStats {
	misses := min(t.misses.Load(), b.gets)
	return ClassStats{
		Gets: b.gets, Hits: b.gets - misses, Misses: misses,
		Frees: b.frees, Dropped: t.dropped.Load(),
	}
}

// add counts one class in the totals.
func (st *Stats) add(c ClassStats, leaked uint64) {
	st.Gets += c.Gets
	st.Hits += c.Hits
	st.Misses += c.Misses
	st.Frees += c.Frees
	st.Dropped += c.Dropped
	st.InUseBuffers += c.InUse
	st.Leaked += leaked
}
