package tarn

// Stats is a snapshot of a pool. Counters only grow. While the pool is in use the figures are of
// slightly different moments. Slabs that the garbage collector has found unreachable are in no figure
// until it has finalized them; otherwise each figure is exact while no Get or Free is under way.
type Stats struct {
	Name    string
	Check   CheckLevel   // in force
	Classes []ClassStats // the size classes in force, ascending; last, with Size 0, what exceeds the largest class

	Gets, Hits, Misses uint64 // Hits were served from idle memory, Misses allocated; Gets is their sum
	Frees              uint64 // slabs returned by their last Free
	Dropped            uint64 // slabs given up: not retained when freed, or idle for too long

	InUse, Idle  int64 // bytes of slabs handed out, and retained for reuse
	Peak         int64 // the most bytes that InUse and Idle ever were together
	InUseBuffers int64 // slabs handed out
	Retain       int64 // the bound on bytes retained
	Budget       int64 // the bound on bytes in use; 0 is none

	Leaked     uint64 // slabs collected by the garbage collector while referenced, at every check level
	Misused    uint64 // uses and frees of freed references, which panicked, and writes to freed memory that were found
	Refused    uint64 // foreign slices that were to be put into the pool
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

// Stats returns a snapshot. It takes a lock for each class that ever allocated and visits each
// retained slab, without stopping Get or Free.
func (p *Pool) Stats() Stats {
	d := p.depot.Stats()
	st := Stats{
		Name: p.Name(), Check: p.config.Check, Classes: make([]ClassStats, len(d.Classes)),
		Gets: d.Gets, Hits: d.Hits, Misses: d.Misses, Frees: d.Frees, Dropped: d.Dropped,
		InUse: d.InUse, Idle: d.Idle, Peak: p.depot.Peak(), InUseBuffers: d.InUseBuffers,
		Retain: max(p.config.Retain, 0), Budget: p.config.Budget,
		Leaked: d.Leaked, Misused: p.reporter.misused.Load(), Refused: p.refused.Load(), Wrapped: d.Wrapped, Cycles: p.depot.Cycle(),
	}
	for i, c := range d.Classes {
		st.Classes[i] = ClassStats(c)
	}
	if p.budget != nil {
		st.OverBudget, st.Waiting = p.budget.Pressure()
	}
	return st
}
