package tarn

import (
	"math/rand/v2"
	"runtime"
	"sync/atomic"
)

// slab is a piece of memory and the word that says who has it. Its plain fields are written by its
// one owner, between Get and handing the reference out or after the last Free, never in between.
type slab struct {
	state    uint64        // see state.go; first, where 32-bit platforms have it aligned; atomic but for internal/publish
	bump     atomic.Uint64 // of an arena's chunk; see Arena
	chunkKey uint64        // of an arena's chunk: the key before its first Buffer; see Arena
	mem      []byte        // len is cap is the size
	pool     *Pool
	class    *class // nil when oversize or foreign

	first uint32 // the generation it was made in
	kept  bool   // its size is reserved from Retain, and it goes back to its class
	due   due    // what the last Free owes, besides putting it back

	foreign bool         // its memory was wrapped
	charge  int64        // bytes charged to the budget
	born    uint64       // GC cycle of the recorded Get
	loan    uint64       // number of its loan, if somebody is told of it
	release func([]byte) // of foreign memory
	track   atomic.Pointer[track]
}

// due is the set of things to do at the last Free of a slab that is not ordinary.
type due uint16

const (
	dueLifetime due = 1 << iota // its lifetime is being recorded
	dueCharge                   // its bytes are charged to the budget
	dueZero                     // it is to be cleared
	duePoison                   // it is to be overwritten
	dueUntrack                  // its references are tracked
	dueGuard                    // its memory has pages of its own
	dueRelease                  // its memory is foreign
	dueCollect                  // it is not kept
	dueObserve                  // somebody is told of its loan
)

// newSlab makes a slab around mem in a random generation, unreferenced. Who makes it sets the
// finalizer, which finds leaks and gives the reservation of idle slabs back.
func newSlab(p *Pool, c *class, mem []byte) *slab {
	s := &slab{mem: mem, pool: p, class: c}
	s.first = rand.Uint32()>>1 + 1 // not near the end of its generations
	atomic.StoreUint64(&s.state, uint64(s.first)<<genShift)
	return s
}

// newFleetingSlab makes one that will not be kept.
func newFleetingSlab(p *Pool, c *class, mem []byte) *slab {
	s := newSlab(p, c, mem)
	runtime.SetFinalizer(s, (*slab).collected)
	return s
}

// cycles is how often the slab was handed out and came home.
func (s *slab) cycles(state uint64) uint64 {
	gen := uint64(generation(state))
	if gen < uint64(s.first) {
		gen += 1 << 32 // wrapped to zero, about to be retired
	}
	return gen - uint64(s.first)
}

// collected runs when the garbage collector found the slab unreachable: dropped by its idle list,
// or leaked.
func (s *slab) collected() {
	st := atomic.LoadUint64(&s.state)
	s.pool.forget(s, st)
	if count(st) > 0 {
		s.pool.leaked(s)
	}
}

// discard gives up a slab that the caller owns and nobody references.
func (s *slab) discard() {
	runtime.SetFinalizer(s, nil)
	s.pool.forget(s, atomic.LoadUint64(&s.state))
}

// home finishes the last Free of a slab that is not ordinary: whatever is due, then back to its class or away.
func (s *slab) home() {
	due := s.due
	s.due = 0
	if due&dueLifetime != 0 {
		s.pool.record.life(s.pool.cycle.Load() - s.born)
	}
	if due&dueObserve != 0 {
		s.pool.config.Observe(Loan{Number: s.loan})
	}
	if due&dueUntrack != 0 {
		s.pool.untrack(s)
	}
	if due&dueZero != 0 {
		clear(s.mem)
	}
	if due&duePoison != 0 {
		poison(s.mem)
	}
	if due&dueGuard != 0 {
		s.pool.guard.retire(s.mem)
	}
	if due&dueRelease != 0 {
		s.letGo()
	}
	if due&dueCharge != 0 {
		s.pool.budget.credit(s.charge)
		s.charge = 0
	}
	if due&dueCollect != 0 {
		s.discard()
		return
	}
	s.class.idle.Put(s)
}

// poison overwrites memory that nobody may read any more, so that a stale read is seen for one.
func poison(mem []byte) {
	const pattern = 0xDB
	for i := range mem {
		mem[i] = pattern
	}
}
