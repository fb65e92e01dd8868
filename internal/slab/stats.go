package slab

import (
	"slices"
)

// Stats is a snapshot of a depot. Counters only grow.
type Stats struct {
	Classes []ClassStats // the ladder in force, ascending; last, with Size 0, what exceeds the largest class

	Gets, Hits, Misses, Frees, Dropped, Leaked uint64
	InUse, Idle, InUseBuffers, Wrapped         int64
}

// ClassStats are the figures of one class.
type ClassStats struct {
	Size               int // bytes of a slab
	Gets, Hits, Misses uint64
	Frees, Dropped     uint64
	InUse, Idle        int64 // slabs
}

// Stats returns a snapshot. It takes a lock for each class that ever allocated and visits each
// retained slab, without stopping Get or Free.
func (d *Depot) Stats() Stats {
	ladder := d.Classes()
	st := Stats{Classes: make([]ClassStats, 0, len(ladder)+1)}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.classes {
		b, inUse, idle := c.count()
		cs := classStats(b, &c.tally)
		cs.Size, cs.InUse, cs.Idle = c.size, inUse, idle
		st.Idle += cs.Idle * int64(c.size)
		st.InUse += cs.InUse * int64(c.size)
		st.add(cs, b.leaked)
		if _, inForce := slices.BinarySearch(ladder, c.size); inForce {
			st.Classes = append(st.Classes, cs)
		}
	}
	slices.SortFunc(st.Classes, func(a, b ClassStats) int { return a.Size - b.Size })

	var oversize, foreign books
	d.oversize.addTo(&oversize)
	cs := classStats(oversize, &d.oversize)
	cs.InUse = oversize.inUse()
	st.add(cs, oversize.leaked)
	st.Classes = append(st.Classes, cs)
	d.foreign.addTo(&foreign)
	st.Wrapped = foreign.inUse()
	st.Leaked += foreign.leaked
	st.InUse += d.large.Load()
	return st
}

// classStats derives a class's counters from its books.
func classStats(b books, t *tally) ClassStats {
	return ClassStats{
		Gets: b.gets, Hits: b.hits, Misses: b.gets - b.hits,
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
