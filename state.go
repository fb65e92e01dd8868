package tarn

import "sync/atomic"

// A slab's state is one word, so that one compare-and-swap both proves that the caller's handle is
// current and changes the count. A Buffer's key looks like the state of a slab that it alone refers
// to:
//
//	state  63            32 31      30 29  28              0
//	      ┌────────────────┬─────────┬──────┬───────────────┐
//	      │   generation   │ flagged │   –  │  weights' sum │
//	      └────────────────┴─────────┴──────┴───────────────┘
//	key   ┌────────────────┬─────────┬──────┬───────────────┐
//	      │   generation   │ tracked │ hint │    weight     │   or, where tracked, the identity
//	      └────────────────┴─────────┴──────┴───────────────┘
//
// References have weights (Bevan, Watson and Watson, PARLE 1987): a slab's count is the sum of the
// weights of its references, Get's reference weighs whole, and Split shares a weight between two
// references without touching the count at all. A tracked reference weighs one. The sum is zero
// while the slab is idle.
//
// Hints let Free guess the word it will find: a compare-and-swap with a guessed word costs half of
// a load and a compare-and-swap, as the processor lets no load pass an atomic operation.
//
// Generations start at random and never repeat: a slab whose generation reached zero is retired.
const (
	genShift         = 32
	genStep   uint64 = 1 << genShift
	genMask   uint64 = ^(genStep - 1)
	countMask uint64 = 1<<29 - 1

	flagged uint64 = 1 << 31 // in a state: the last Free has more to do than to put the slab back

	tracked uint64 = 1 << 31 // in a key: the reference has an identity instead of a weight
	sooner  uint64 = 1 << 30 // in a key: one other reference of this weight likely lives longer
	crowded uint64 = 1 << 29 // in a key: there are likely many others
	special        = tracked | sooner | crowded

	whole    uint64 = 16 // the weight of Get's reference, good for four Splits of the same one
	maxCount uint64 = 1 << 28
)

// current tells whether a key is of the generation that the state word is in.
func current(state, key uint64) bool { return (state^key)>>genShift == 0 }

// count is the sum of weights in a state word.
func count(state uint64) uint64 { return state & countMask }

// weight is what the reference of a key contributes to the count.
func weight(key uint64) uint64 {
	if key&tracked != 0 {
		return 1
	}
	return key & countMask
}

// nextGeneration is the state of an idle slab after the cycle that word is of.
func nextGeneration(word uint64) uint64 { return word&genMask + genStep }

// generation is the generation in a state word or a key.
func generation(word uint64) uint32 { return uint32(word >> genShift) }

// scatter spreads generations evenly over 32 bits (Knuth's multiplicative hash), so that a
// threshold on it samples one Get in N with no counter to share. It maps 0 to 0, which every
// threshold includes: that is how a wrapped generation is noticed for free.
func scatter(gen uint32) uint32 { return gen * 0x9E3779B9 }

// retain adds weight to the slab that key refers to. It reports false, having changed nothing,
// when the slab is no longer in that generation.
func retain(state *atomic.Uint64, key, weight uint64) bool {
	for {
		st := state.Load()
		if !current(st, key) || count(st) == 0 {
			return false
		}
		if count(st)+weight > maxCount {
			panic("tarn: more than 2^24 references to one slab")
		}
		if state.CompareAndSwap(st, st+weight) {
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

// drop takes weight away from key's generation. When none is left the slab is in its next
// generation with a count of zero, so that no handle reaches it any more.
func drop(state *atomic.Uint64, key, weight uint64) dropped {
	for {
		st := state.Load()
		switch {
		case !current(st, key) || count(st) < weight:
			return droppedStale
		case count(st) > weight:
			if state.CompareAndSwap(st, st-weight) {
				return droppedOne
			}
		case state.CompareAndSwap(st, nextGeneration(st)):
			if st&flagged != 0 {
				return droppedFlagged
			}
			return droppedLast
		}
	}
}
