package tarn

import "sync/atomic"

// A slab's count and generation share one word, so that one compare-and-swap both proves that the
// caller's handle is current and changes the count.
//
//	63            32 31      30              0
//	┌───────────────┬─────────┬───────────────┐
//	│  generation   │ flagged │     count     │
//	└───────────────┴─────────┴───────────────┘
//
// A Buffer's key has the generation in the same place and, at the bottom, the reference's identity
// where checks gave it one, otherwise zero. Two bits above it let Free guess the word it will find:
// a compare-and-swap with a guessed word costs half of a load and a compare-and-swap, as the
// processor lets no load pass an atomic operation. The count is zero while the slab is idle. Generations start at random
// and never repeat: a slab whose generation reached zero is retired.
const (
	genShift         = 32
	genStep   uint64 = 1 << genShift
	flagged   uint64 = 1 << 31 // the last Free has more to do than to put the slab back
	countMask uint64 = flagged - 1
	maxCount  uint64 = 1 << 30

	// What a key has there instead, to guess by:
	sooner  uint64 = flagged // another reference likely lives longer
	crowded uint64 = 1 << 30 // there are likely many others
	guesses        = sooner | crowded
)

// current tells whether a key is of the generation that the state word is in.
func current(state, key uint64) bool { return (state^key)>>genShift == 0 }

// count is the number of references in a state word.
func count(state uint64) uint64 { return state & countMask }

// generation is the generation in a state word or a key.
func generation(word uint64) uint32 { return uint32(word >> genShift) }

// scatter spreads generations evenly over 32 bits (Knuth's multiplicative hash), so that a
// threshold on it samples one Get in N with no counter to share. It maps 0 to 0, which every
// threshold includes: that is how a wrapped generation is noticed for free.
func scatter(gen uint32) uint32 { return gen * 0x9E3779B9 }

// retain adds one reference to the slab that key refers to. It reports false, having changed
// nothing, when the slab is no longer in that generation.
func retain(state *atomic.Uint64, key uint64) bool {
	if alone := key&^guesses + 1; state.CompareAndSwap(alone, alone+1) {
		return true
	}
	for {
		st := state.Load()
		if !current(st, key) || count(st) == 0 {
			return false
		}
		if count(st) >= maxCount {
			panic("tarn: more than 2^30 references to one slab")
		}
		if state.CompareAndSwap(st, st+1) {
			return true
		}
	}
}

// The outcomes of drop.
type dropped int

const (
	droppedStale   dropped = iota // the key is of another generation; nothing was changed
	droppedOne                    // others remain
	droppedLast                   // the slab is the caller's, to put back
	droppedFlagged                // the slab is the caller's, and has more to be done to it
)

// drop takes away n references of key's generation. After the last one the slab is in its next
// generation with a count of zero, so that no handle reaches it any more.
func drop(state *atomic.Uint64, key, n uint64) dropped {
	for {
		st := state.Load()
		switch {
		case !current(st, key) || count(st) < n:
			return droppedStale
		case count(st) > n:
			if state.CompareAndSwap(st, st-n) {
				return droppedOne
			}
		case state.CompareAndSwap(st, (st>>genShift+1)<<genShift):
			if st&flagged != 0 {
				return droppedFlagged
			}
			return droppedLast
		}
	}
}
