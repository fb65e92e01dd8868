package tarn

import (
	"fmt"
	"log/slog"
)

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

// RecordEvery is how many Gets one recorded Get represents, on average.
const RecordEvery = 256

// Histogram is what a pool has recorded: how often it was asked for which size, and how long
// buffers lived. Counts only grow. It marshals to JSON.
type Histogram struct {
	Name      string      `json:"name,omitempty"`
	Every     int         `json:"every"`   // one Get in so many was looked at; counts are scaled up by it
	Peak      int64       `json:"peak"`    // Stats.Peak, in bytes
	Classes   []int       `json:"classes"` // the size classes in force, ascending
	Sizes     []SizeCount `json:"sizes"`
	Lifetimes []LifeCount `json:"lifetimes"`
}

// SizeCount is how many Gets asked for at most Size bytes and more than the entry before. Buckets
// are log-linear, 32 to a doubling.
type SizeCount struct {
	Size  int    `json:"size"`
	Count uint64 `json:"count"`
	Bytes uint64 `json:"bytes,omitempty"` // that those Gets asked for together; 0 means Count×Size
}

// LifeCount is how many slabs were out for at most Cycles garbage collections and more than the
// entry before.
type LifeCount struct {
	Cycles int    `json:"cycles"`
	Count  uint64 `json:"count"`
}

// Histogram returns a snapshot of what was recorded; with RecordOff it has no counts. It costs a
// walk over some 800 counters and allocates its result.
func (p *Pool) Histogram() Histogram {
	h := Histogram{Name: p.Name(), Every: RecordEvery, Peak: p.depot.Peak(), Classes: p.Classes()}
	if p.recorder == nil {
		return h
	}
	p.recorder.Sizes(func(size int, count, bytes uint64) {
		h.Sizes = append(h.Sizes, SizeCount{size, count * RecordEvery, bytes * RecordEvery})
	})
	p.recorder.Lifetimes(func(cycles int, count uint64) {
		h.Lifetimes = append(h.Lifetimes, LifeCount{cycles, count * RecordEvery})
	})
	return h
}

// Loan is the beginning or the end of a slab's time out of its pool, as PoolConfig.Observe receives
// it. An exact trace consists of Loans; a Histogram has only samples.
type Loan struct {
	Number uint64 // counts the pool's Gets from 1; the same at both ends
	Size   int    // bytes asked for, at the beginning; 0 at the end
}

// This file is how values print and log: by their sizes, never by the bytes that they hold.

// number is n with the noun that it counts, which is a regular one.
func number[N int | int32 | int64 | uint64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// String says how many bytes b shows of how large a slab. It works on a Buffer that was freed, too.
func (b Buffer) String() string {
	if b.slab == nil {
		return "no Buffer"
	}
	return fmt.Sprintf("Buffer of %s in a slab of %d", number(b.n, "byte"), b.slab.Size())
}

// LogValue logs b by its length and the size of its slab, in bytes.
func (b Buffer) LogValue() slog.Value {
	return slog.GroupValue(slog.Int("len", b.n), slog.Int("pinned", b.Pinned()))
}

// String says how many bytes c holds in how many segments.
func (c Chain) String() string {
	return fmt.Sprintf("Chain of %s in %s", number(c.bytes, "byte"), number(c.n, "segment"))
}

// LogValue logs c by its length in bytes and its segments.
func (c Chain) LogValue() slog.Value {
	return slog.GroupValue(slog.Int("len", c.bytes), slog.Int("segments", int(c.n)))
}

// String is the snapshot on one line, without the classes.
func (st Stats) String() string {
	return fmt.Sprintf("pool %q: %s (%s) in use, %s idle, %s (%.1f %% hits), %d leaked",
		st.Name, number(st.InUseBuffers, "buffer"), number(st.InUse, "byte"), number(st.Idle, "byte"), number(st.Gets, "get"), 100*float64(st.Hits)/float64(max(st.Gets, 1)), st.Leaked)
}

// LogValue logs the snapshot without the classes.
func (st Stats) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("pool", st.Name), slog.Int64("in_use", st.InUse), slog.Int64("in_use_buffers", st.InUseBuffers),
		slog.Int64("idle", st.Idle), slog.Uint64("gets", st.Gets), slog.Uint64("misses", st.Misses),
		slog.Uint64("leaked", st.Leaked), slog.Uint64("over_budget", st.OverBudget), slog.Int("waiting", st.Waiting),
	)
}

// String is that of the pool's Stats. It is safe for concurrent use, as Stats is. A pool that is not ready
// for use is "no Pool".
func (p *Pool) String() string {
	if p == nil || !p.depot.Ready() {
		return "no Pool"
	}
	return p.Stats().String()
}

// LogValue logs the pool's Stats without the classes.
func (p *Pool) LogValue() slog.Value {
	if p == nil || !p.depot.Ready() {
		return slog.StringValue(p.String())
	}
	return p.Stats().LogValue()
}

// String is the mark in words.
func (w Watermark) String() string {
	switch w {
	case AboveHigh:
		return "above high"
	case BelowLow:
		return "below low"
	default:
		return fmt.Sprintf("watermark %d", int(w))
	}
}
