package tarn

import "sync/atomic"

// A slab's state is one word, so that one compare-and-swap both proves that the caller's handle is
// current and changes the count. A Buffer's key looks like it:
//
//	state  63            32 31       30       29  28              0
//	      ┌────────────────┬──────────┬─────────┬──┬───────────────┐
//	      │   generation   │ ordinary │    –    │– │ weights' sum  │
//	      └────────────────┴──────────┴─────────┴──┴───────────────┘
//	key   ┌────────────────┬──────────┬─────────┬──┬───────────────┐
//	      │   generation   │ foretold │ tracked │– │    weight     │  foretold: the sum to come
//	      └────────────────┴──────────┴─────────┴──┴───────────────┘  tracked: the identity
//
// References have weights (Bevan, Watson and Watson, PARLE 1987): a slab's count is the sum of the
// weights of its references. Get's reference weighs whole, and Split parts with one of its weight
// without touching the count at all. Others, tracked and foretold, weigh one. The sum is zero while
// the slab is idle.
//
// A foretold key is the very word that Free will find if references are freed in the order in which
// they were made, and the key of one that weighs more is that word but for its ordinary bit if it is
// freed last. A compare-and-swap with a word known beforehand costs half of a load and a
// compare-and-swap, as the processor lets no load pass an atomic operation; one that fails costs as
// much again.
//
// Generations start at random and never repeat: a slab whose generation reached zero is retired.
const (
	genShift         = 32
	genStep   uint64 = 1 << genShift
	genMask   uint64 = ^(genStep - 1)
	countMask uint64 = 1<<29 - 1

	ordinary uint64 = 1 << 31 // in a state: the last Free has nothing to do but to put the slab back

	foretold uint64 = ordinary // in a key: Free likely finds the slab in this very state, two at least
	tracked  uint64 = 1 << 30  // in a key: the reference has an identity
	special         = foretold | tracked

	whole    uint64 = 16 // the weight of Get's reference, good for that many Splits less one
	maxCount uint64 = 1 << 28
)

// current tells whether a key is of the generation that the state word is in.
func current(state, key uint64) bool { return (state^key)>>genShift == 0 }

// count is the sum of weights in a state word.
func count(state uint64) uint64 { return state & countMask }

// weight is what the reference of a key contributes to the count.
func weight(key uint64) uint64 {
	if key&special != 0 {
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
func retain(state *uint64, key, weight uint64) bool {
	for {
		st := atomic.LoadUint64(state)
		if !current(st, key) || count(st) == 0 {
			return false
		}
		if count(st)+weight > maxCount {
			panic("tarn: more than 2^24 references to one slab")
		}
		if atomic.CompareAndSwapUint64(state, st, st+weight) {
			return true
		}
	}
}

// The outcomes of drop.
type dropped int

const (
	droppedStale dropped = iota // the key is of another generation; nothing was changed
	droppedOne                  // others remain
	droppedLast                 // the slab is the caller's, to put back
	droppedDue                  // the slab is the caller's, and something is due
)

// drop takes weight away from key's generation. When none is left the slab is in its next
// generation with a count of zero, so that no handle reaches it any more.
func drop(state *uint64, key, weight uint64) dropped {
	for {
		st := atomic.LoadUint64(state)
		switch {
		case !current(st, key) || count(st) < weight:
			return droppedStale
		case count(st) > weight:
			if atomic.CompareAndSwapUint64(state, st, st-weight) {
				return droppedOne
			}
		case atomic.CompareAndSwapUint64(state, st, nextGeneration(st)):
			if st&ordinary == 0 {
				return droppedDue
			}
			return droppedLast
		}
	}
}
