package slab

import (
	"math/rand/v2"
	"runtime"
	"sync/atomic"

	"github.com/tarn-go/tarn/internal/track"
)

// Slab is a piece of memory and its state word, which counts the references. Its plain fields are
// written by its one owner: between Get and handing the reference out, or after the last Free, never in
// between. Get, Bytes and Free of an ordinary buffer touch only its first cache line, and so does its class's shelf,
// except for atCycle and atPeriod; see layout.go.
type Slab struct {
	state    uint64 // see state.go; first, where 32-bit platforms have it aligned; atomic except for internal/publish
	class    *class // nil when oversize or foreign
	mem      []byte // its length is its capacity is the size
	depot    *Depot
	first    uint32  // the generation it was made in
	pending  pending // work for the last Free, besides putting it back
	retained bool    // its size is reserved from Retain, and it goes back to its class
	shelved  bool    // it is on its class's shelf, since atCycle and atPeriod

	bump      atomic.Uint64 // of an arena's chunk; see Arena
	chunkKey  Key           // of an arena's chunk: the key before its first reference; see Arena
	atCycle   uint64        // a garbage collection, of those that count for the shelves
	atPeriod  uint64        // a period of the trim timer
	finalized bool          // it is among the old ones of its class, and has a finalizer
	foreign   bool          // its memory was wrapped
	poisoned  bool          // its memory was overwritten at its last Free, and is to be found so
	charge    int64         // bytes charged to the budget
	born      uint64        // GC cycle of the recorded Get
	loan      uint64        // number of its loan, if loans are observed
	release   func([]byte)  // of foreign memory
	track     atomic.Pointer[track.Cycle]

	_ [6]uint64 // see layout.go
}

// pending is the work of the last Free of a slab that is not ordinary.
type pending uint16

const (
	pendingLifetime pending = 1 << iota // record its lifetime
	pendingCharge                       // refund its bytes to the budget
	pendingZero                         // clear it
	pendingPoison                       // overwrite it
	pendingUntrack                      // end the tracking of its references
	pendingGuard                        // make its pages inaccessible
	pendingRelease                      // release its foreign memory
	pendingDiscard                      // leave it to the garbage collector
	pendingObserve                      // report the end of its loan
)

// newSlab makes a slab around mem in a random generation, unreferenced. Its maker sets the finalizer,
// which finds leaks and gives the reservation of idle slabs back.
func newSlab(d *Depot, c *class, mem []byte) *Slab {
	s := &Slab{mem: mem, depot: d, class: c}
	s.first = rand.Uint32()>>1 + 1 // far from the end of its generations
	atomic.StoreUint64(&s.state, uint64(s.first)<<genShift)
	return s
}

// newTransient makes a slab that is not retained.
func newTransient(d *Depot, c *class, mem []byte) *Slab {
	s := newSlab(d, c, mem)
	runtime.SetFinalizer(s, (*Slab).collected)
	return s
}

// Mem is the slab's memory. Its holder has a reference, or is the last Free.
func (s *Slab) Mem() []byte { return s.mem }

// Size is the slab's size in bytes.
func (s *Slab) Size() int { return len(s.mem) }

// Owner is the Config.Owner of the slab's depot.
func (s *Slab) Owner() any { return s.depot.config.Owner }

// Foreign reports whether the memory was wrapped.
func (s *Slab) Foreign() bool { return s.foreign }

// cycles is how often the slab was handed out and freed.
func (s *Slab) cycles(state uint64) uint64 {
	gen := uint64(generation(state))
	if gen < uint64(s.first) {
		gen += 1 << 32 // wrapped to zero, about to be retired
	}
	return gen - uint64(s.first)
}

// collected runs when the garbage collector found the slab unreachable: dropped by the sync.Pool, and
// then it is shelved for a while, or leaked.
func (s *Slab) collected() {
	st := atomic.LoadUint64(&s.state)
	if s.retained && count(st) == 0 {
		s.class.recover(s)
		return
	}
	s.verifyPoison()
	s.depot.forget(s, st)
	if count(st) > 0 {
		s.depot.leaked(s)
	}
}

// discard gives up a slab that the caller owns and that has no references.
func (s *Slab) discard() {
	s.verifyPoison()
	finalized := !s.retained
	s.depot.forget(s, atomic.LoadUint64(&s.state))
	if finalized || s.finalized { // once it is out of the books its class does not set one any more
		runtime.SetFinalizer(s, nil)
	}
}

// finish is the last Free of a slab that is not ordinary: it does the pending work, then returns the
// slab to its class or discards it. Functions of the program are called after the depot's own work: if one
// panics, the slab is idle, cleared and out of reach, and the garbage collector finds it.
func (s *Slab) finish() {
	todo := s.pending
	s.pending = 0
	d := s.depot
	if todo&pendingLifetime != 0 {
		d.config.Recorder.Lifetime(d.cycle.Load() - s.born)
	}
	if todo&pendingUntrack != 0 {
		d.config.Tracks.End(s.track.Load())
	}
	if todo&pendingZero != 0 {
		clear(s.mem)
	}
	if todo&pendingPoison != 0 {
		poison(s.mem)
		s.poisoned = todo&pendingDiscard == 0 // a discarded slab is not verified again
	}
	if todo&pendingGuard != 0 {
		d.config.Guard.Retire(s.mem, s.track.Load())
	}
	if todo&pendingCharge != 0 {
		charge := s.charge
		s.charge = 0
		d.config.Budget.Refund(charge)
	}
	if todo&pendingObserve != 0 {
		d.config.Returned(s.loan)
	}
	if todo&pendingRelease != 0 {
		s.releaseForeign()
	}
	if todo&pendingDiscard != 0 {
		s.discard()
		return
	}
	s.class.idle.Put(s)
}

// releaseForeign gives foreign memory back to its source.
func (s *Slab) releaseForeign() {
	release := s.release
	s.release = nil
	if release != nil {
		release(s.mem)
	}
}
