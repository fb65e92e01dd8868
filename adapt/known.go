package adapt

import (
	"sync"
	"sync/atomic"
	"weak"
)

// minKnown is the smallest size of a table that is not empty.
const minKnown = 64

// known finds the grpcBuf that a pointer handed out by a GRPCPool points into. Each grpcBuf enters it
// once and is then used again and again, so that finding one is what has to be quick: it takes no
// lock. A known keeps no grpcBuf alive, so that one that is never put back can be collected; what is
// left of it in the table goes when the table is next rebuilt. The zero known is empty.
type known struct {
	slots atomic.Pointer[[]knownSlot] // a power of two of them, at most half in use; linear probing

	mu   sync.Mutex // held to change the table
	used int        // slots in use, those of collected grpcBufs among them
}

type knownSlot = atomic.Pointer[knownEntry]

type knownEntry struct {
	addr uintptr // of the slice in the grpcBuf
	w    weak.Pointer[grpcBuf]
}

// find returns the grpcBuf that p points into, and nil if there is none.
func (k *known) find(p *[]byte) *grpcBuf {
	slots := k.slots.Load()
	if slots == nil {
		return nil
	}
	addr := addrOf(p)
	e := probe(*slots, addr).Load()
	if e == nil {
		return nil
	}
	// Equal addresses do not prove it: the grpcBuf may have been collected, and p may point into newer
	// memory. Equal pointers do.
	if w := e.w.Value(); w != nil && &w.b == p {
		return w
	}
	return nil
}

// probe returns the slot of addr, or the empty slot where it would go. There always is an empty one,
// and slots never become empty again, so it may run while add does.
func probe(slots []knownSlot, addr uintptr) *knownSlot {
	mask := uint64(len(slots) - 1)
	for i := hash(addr) >> 32; ; i++ {
		s := &slots[i&mask]
		if e := s.Load(); e == nil || e.addr == addr {
			return s
		}
	}
}

// add makes w known.
func (k *known) add(w *grpcBuf) {
	e := &knownEntry{addrOf(&w.b), weak.Make(w)}
	k.mu.Lock()
	defer k.mu.Unlock()
	slots := k.slots.Load()
	if slots == nil || 2*k.used >= len(*slots) {
		slots = k.rebuild(slots)
	}
	s := probe(*slots, e.addr)
	if s.Load() == nil {
		k.used++
	}
	s.Store(e) // in place of one that was collected, if there was one at this address
}

// rebuild makes a table with room for twice the entries of old that are still alive.
func (k *known) rebuild(old *[]knownSlot) *[]knownSlot {
	var alive []*knownEntry
	if old != nil {
		for i := range *old {
			if e := (*old)[i].Load(); e != nil && e.w.Value() != nil {
				alive = append(alive, e)
			}
		}
	}
	size := minKnown
	for size < 4*len(alive) {
		size *= 2
	}
	slots := make([]knownSlot, size)
	for _, e := range alive {
		probe(slots, e.addr).Store(e)
	}
	k.used = len(alive)
	k.slots.Store(&slots)
	return &slots
}
