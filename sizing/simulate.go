package sizing

import (
	"fmt"
	"sort"
)

// Replay is the pool a trace is replayed against.
type Replay struct {
	// Classes is the ladder, rising. Empty: nothing is pooled.
	Classes []int
	// Retain bounds the idle bytes kept, as PoolConfig.Retain does. 0: nothing is kept; negative: no bound.
	Retain int64
}

// Outcome is the result of a replay.
type Outcome struct {
	Gets, Hits, Misses uint64
	Oversize           uint64 // gets above the largest class; counted in Misses too
	Dropped            uint64 // slabs not kept on free, for the bound or after idle cycles
	Requested, Slab    uint64 // bytes asked for and handed out, summed over all gets
	PeakInUse          int64  // the most slab bytes out at a time
	PeakHeld           int64  // the most slab bytes out and idle together
	PeakWaste          int64  // the most bytes out at a time and not requested
	Out                int    // buffers never freed
}

// HitRate is Hits/Gets, 0 without gets.
func (o Outcome) HitRate() float64 {
	if o.Gets == 0 {
		return 0
	}
	return float64(o.Hits) / float64(o.Gets)
}

// WasteShare is the part of the bytes handed out and not requested, between 0 and 1.
func (o Outcome) WasteShare() float64 {
	if o.Slab == 0 {
		return 0
	}
	return float64(o.Slab-o.Requested) / float64(o.Slab)
}

// Simulate replays t against r. It models a pool as one list of idle slabs for each class under one
// bound on bytes, of which slabs that no request wanted for a whole collection cycle are given up by
// half at its end. A real pool gives up a slab that was idle for three collections or for four to eight seconds, and
// spreads its lists over processors, so its hits differ; waste does not depend on that. Simulate takes time proportional to the events and neither keeps nor
// changes t. Errors match ErrMalformed (the ladder, or events out of order) or ErrEmpty.
func Simulate(t Trace, r Replay) (Outcome, error) {
	if err := checkLadder(r.Classes); err != nil {
		return Outcome{}, err
	}
	s := replay{Replay: r, idle: make([]int, len(r.Classes)), low: make([]int, len(r.Classes))}
	for i, e := range t.Events {
		ok := true
		switch e.Op {
		case OpGet:
			ok = e.Arg > 0
			s.get(e.Arg)
		case OpFree:
			ok = s.free(e.Arg)
		case OpCycle:
			s.cycle()
		}
		if !ok {
			return Outcome{}, fmt.Errorf("%w: event %d", ErrMalformed, i)
		}
	}
	if s.result.Gets == 0 {
		return Outcome{}, fmt.Errorf("%w: the trace has no gets", ErrEmpty)
	}
	s.result.Out = s.out
	return s.result, nil
}

// replay is the state of a simulated pool.
type replay struct {
	Replay
	result Outcome

	idle    []int // slabs kept, by class
	low     []int // the fewest kept since the last cycle: slabs that were not needed
	kept    int64 // bytes of them
	inUse   int64
	waste   int64
	out     int
	buffers []live
}

// live is one get: how much it asked for and what serves it; slab is 0 once freed.
type live struct{ size, slab, class int }

func (s *replay) get(size int) {
	c := sort.SearchInts(s.Classes, size)
	b := live{size: size, slab: size, class: c}
	s.result.Gets++
	switch {
	case c == len(s.Classes):
		s.result.Oversize++
		s.result.Misses++
	case s.idle[c] > 0:
		b.slab = s.Classes[c]
		s.idle[c]--
		s.low[c] = min(s.low[c], s.idle[c])
		s.kept -= int64(b.slab)
		s.result.Hits++
	default:
		b.slab = s.Classes[c]
		s.result.Misses++
	}
	s.buffers = append(s.buffers, b)
	s.out++
	s.inUse += int64(b.slab)
	s.waste += int64(b.slab - b.size)
	s.result.Requested = addSat(s.result.Requested, uint64(b.size))
	s.result.Slab = addSat(s.result.Slab, uint64(b.slab))
	s.result.PeakInUse = max(s.result.PeakInUse, s.inUse)
	s.result.PeakHeld = max(s.result.PeakHeld, s.inUse+s.kept)
	s.result.PeakWaste = max(s.result.PeakWaste, s.waste)
}

func (s *replay) free(n int) bool {
	if n < 0 || n >= len(s.buffers) || s.buffers[n].slab == 0 {
		return false
	}
	b := s.buffers[n]
	s.buffers[n].slab = 0
	s.out--
	s.inUse -= int64(b.slab)
	s.waste -= int64(b.slab - b.size)
	switch {
	case b.class == len(s.Classes):
		// Oversize: never kept, and not counted as dropped.
	case s.Retain >= 0 && s.kept+int64(b.slab) > s.Retain:
		s.result.Dropped++
	default:
		s.idle[b.class]++
		s.kept += int64(b.slab)
	}
	return true
}

// cycle gives up half of what stayed idle since the cycle before, at least one.
func (s *replay) cycle() {
	for c, low := range s.low {
		drop := (low + 1) / 2
		s.idle[c] -= drop
		s.kept -= int64(drop) * int64(s.Classes[c])
		s.result.Dropped += uint64(drop)
		s.low[c] = s.idle[c]
	}
}
