package slab

import "sync/atomic"

// A slab's state is one word, so that one compare-and-swap both proves that the caller's reference
// is current and changes the count. A reference's Key has the same layout:
//
//	state  63            32 31       30      29          28              0
//	      ┌────────────────┬──────────┬───────┬───────────┬───────────────┐
//	      │   generation   │ ordinary │   0   │ unordered │ weights' sum  │
//	      └────────────────┴──────────┴───────┴───────────┴───────────────┘
//	key   ┌────────────────┬──────────┬───────┬───────────┬───────────────┐
//	      │   generation   │predicted │tracked│     0     │    weight     │  predicted: the expected sum
//	      └────────────────┴──────────┴───────┴───────────┴───────────────┘  tracked: the identity
//
// References have weights (Bevan, Watson and Watson, PARLE 1987): a slab's count is the sum of the
// weights of its references. Get's reference weighs getWeight, and Split gives one of its weight away
// without touching the count at all. Other references, predicted and tracked ones included, weigh
// one. The sum is zero while the slab is idle.
//
// A predicted key is the very word that Free finds if references are freed in order: each while the
// sum is what the key says. The key of a heavier reference, with the ordinary bit set, is the word
// that Free finds if it is freed last. A compare-and-swap with a word known beforehand costs half of a
// load and a compare-and-swap, because the processor lets no load pass an atomic operation; one that
// fails costs as much again.
//
// As long as all references were freed in order, no live one expects a sum above the present: such a
// reference was freed before, and is caught at once. The first Free out of order marks the state as
// unordered until the slab's next cycle; from then on only the sum is known, and a second Free of one
// reference takes the weight of another, which panics when its holder frees it.
//
// Generations start at random and never repeat: a slab whose generation reached zero is retired.
const (
	genShift         = 32
	genStep   uint64 = 1 << genShift
	genMask   uint64 = ^(genStep - 1)
	countMask uint64 = 1<<29 - 1

	ordinary  uint64 = 1 << 31 // in a state: the last Free has nothing to do but to put the slab back
	unordered uint64 = 1 << 29 // in a state: references were freed out of order

	predicted uint64 = ordinary // in a key: Free probably finds the slab in this very state, of a sum of two or more
	tracked   uint64 = 1 << 30  // in a key: the reference has an identity
	special          = predicted | tracked

	getWeight uint64 = 16 // the weight of Get's reference: good for that many Splits less one
	maxCount  uint64 = 1 << 28
)

// Free recognises a predicted key by its sign as an int32, and a sum must never carry into the flags.
const (
	_ = uint(31 - (genShift - 1)) // predicted is bit 31
	_ = uint(predicted>>31 - 1)
	_ = uint(unordered - 1 - countMask)
	_ = uint(countMask - maxCount - 1<<24) // what a chunk takes ahead fits, too
)

// Key is a reference's half of the state word. The zero Key belongs to no reference.
type Key uint64

// Identity is the number by which checks know a reference; 0 for one that is not tracked.
func (k Key) Identity() uint32 {
	if uint64(k)&tracked == 0 {
		return 0
	}
	return uint32(uint64(k) & countMask)
}

// weight is what the reference contributes to the count.
func (k Key) weight() uint64 {
	if uint64(k)&special != 0 {
		return 1
	}
	return uint64(k) & countMask
}

// SameCycle reports whether two keys of one slab are of the same generation.
func (k Key) SameCycle(o Key) bool { return (k^o)>>genShift == 0 }

// Divisible reports whether the reference has weight to share, so that Divide works.
func (k Key) Divisible() bool { return uint64(k)&special == 0 && uint64(k)&countMask >= 2 }

// Divide gives one of the weight of a Divisible key to a further reference. The lighter one, meant to
// be freed first, is predicted.
func (k Key) Divide() (light, remaining Key) { return k | Key(predicted), k - 1 }

// spent reports whether a key of the state's generation is certainly of a reference that was freed: a
// heavy one of more weight than is left, or a predicted one that expects a sum above the present
// although everything was freed in order.
func spent(state uint64, key Key) bool {
	switch uint64(key) & special {
	case 0:
		return count(state) < uint64(key)&countMask
	case predicted:
		return state&unordered == 0 && count(state) < uint64(key)&countMask
	default:
		return false // tracked
	}
}

// current reports whether a key is of the generation that the state word is in.
func current(state uint64, key Key) bool { return (state^uint64(key))>>genShift == 0 }

// count is the sum of weights in a state word.
func count(state uint64) uint64 { return state & countMask }

// nextGeneration is the state of an idle slab after the cycle that word is of.
func nextGeneration(word uint64) uint64 { return word&genMask + genStep }

// generation is the generation in a state word or a key.
func generation(word uint64) uint32 { return uint32(word >> genShift) }

// sampleHash spreads generations evenly over 32 bits (Knuth's multiplicative hash), so that a
// threshold on it samples one Get in N without a shared counter. It maps 0 to 0, which is below every
// threshold: that is how a wrapped generation is noticed for free.
func sampleHash(gen uint32) uint32 { return gen * 0x9E3779B9 }

// retained is the state after a further weight was taken on behalf of key's reference; false if that
// reference was freed. A weight of more than one is shared by Splits, whose references of weight one
// then expect sums that others expect, too: the state becomes unordered, unless there are no others.
func retained(st uint64, key Key, weight uint64) (next uint64, ok bool) {
	if !current(st, key) || count(st) == 0 || spent(st, key) {
		return st, false
	}
	if count(st)+weight > maxCount {
		panic("tarn: more than 2^24 references to one slab")
	}
	if weight > 1 && count(st) > key.weight() {
		st |= unordered
	}
	return st + weight, true
}

// retain takes weight from the slab that key refers to and returns the new state. It reports false,
// having changed nothing, if the reference was freed.
func retain(state *uint64, key Key, weight uint64) (next uint64, ok bool) {
	for {
		st := atomic.LoadUint64(state)
		if next, ok = retained(st, key, weight); !ok || atomic.CompareAndSwapUint64(state, st, next) {
			return next, ok
		}
	}
}

// dropped is the outcome of drop.
type dropped int

const (
	droppedStale   dropped = iota // the reference was freed before; nothing was changed
	droppedOne                    // others remain
	droppedLast                   // the slab is the caller's, to put back
	droppedPending                // the slab is the caller's, and work is pending
)

// released is the state after key's weight was given back. When none is left the slab is in its next
// generation with a count of zero, so that no reference reaches it any more.
func released(st uint64, key Key, weight uint64) (next uint64, outcome dropped) {
	switch {
	case !current(st, key) || count(st) < weight || spent(st, key):
		return st, droppedStale
	case count(st) > weight:
		if uint64(key)&special != predicted || count(st) != uint64(key)&countMask {
			st |= unordered
		}
		return st - weight, droppedOne
	case st&ordinary == 0:
		return nextGeneration(st), droppedPending
	default:
		return nextGeneration(st), droppedLast
	}
}

// drop gives key's weight back.
func drop(state *uint64, key Key, weight uint64) dropped {
	for {
		st := atomic.LoadUint64(state)
		next, outcome := released(st, key, weight)
		if outcome == droppedStale || atomic.CompareAndSwapUint64(state, st, next) {
			return outcome
		}
	}
}
