package conn

import (
	"sync"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

const (
	ringMin = 64
	ringMax = 16 << 10
)

// ring holds the registered calls, by MessageId. Ids are assigned in order and mostly answered in order, so a
// ring with as many places as there are credits finds each at its own place. Calls that are answered much
// later (a CHANGE_NOTIFY may wait for days) move to the overflow map when their place is needed. It also
// keeps idle slots.
type ring struct {
	mu            sync.Mutex
	slots         []*Call
	overflow      map[uint64]*Call
	count         int
	free          *Call
	err           error // the reason why the connection ended
	cancelled     cancelledIDs
	round         uint64 // counts the rounds of watchRequests
	answeredRound uint64 // the lowest round of a request that was answered since the last round; ECHO does not count
}

// acquire returns an idle slot.
func (r *ring) acquire(c *Conn) *Call {
	r.mu.Lock()
	cl := r.free
	if cl != nil {
		r.free, cl.next = cl.next, nil
	}
	r.mu.Unlock()
	if cl == nil {
		cl = &Call{slot: slot{c: c, done: make(chan struct{}, 1)}}
	}
	return cl
}

// release recycles a slot that is not registered. The caller must own it.
func (r *ring) release(cl *Call) {
	cl.clear()
	r.mu.Lock()
	cl.next = r.free
	r.free = cl
	r.mu.Unlock()
}

// add registers cl under cl.mid, or returns the reason why the connection ended.
func (r *ring) add(cl *Call) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	if r.slots == nil {
		r.slots = make([]*Call, ringMin)
	}
	at := &r.slots[cl.mid&uint64(len(r.slots)-1)]
	for *at != nil && len(r.slots) < ringMax {
		r.grow()
		at = &r.slots[cl.mid&uint64(len(r.slots)-1)]
	}
	if *at != nil {
		if r.overflow == nil {
			r.overflow = make(map[uint64]*Call)
		}
		r.overflow[(*at).mid] = *at // the call that is still unanswered
	}
	*at = cl
	cl.state, cl.round, cl.age = callPending, r.round, 0
	cl.sent.Store(false)
	r.count++
	return nil
}

// empty reports whether no call is registered.
func (r *ring) empty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count == 0
}

func (r *ring) grow() {
	old := r.slots
	r.slots = make([]*Call, 2*len(old))
	for _, cl := range old {
		if cl != nil {
			r.slots[cl.mid&uint64(len(r.slots)-1)] = cl
		}
	}
}

// find returns the call registered under mid, nil when there is none. r.mu is held.
func (r *ring) find(mid uint64) *Call {
	if len(r.slots) == 0 {
		return nil
	}
	if cl := r.slots[mid&uint64(len(r.slots)-1)]; cl != nil && cl.mid == mid {
		return cl
	}
	return r.overflow[mid]
}

// progress notes that the server has answered or acknowledged cl. r.mu is held.
func (r *ring) progress(cl *Call) {
	if cl.cmd != proto.CommandEcho {
		r.answeredRound = min(r.answeredRound, cl.round)
	}
}

// remove ends the registration of cl. r.mu is held.
func (r *ring) remove(cl *Call) {
	if len(r.slots) == 0 {
		return
	}
	at := &r.slots[cl.mid&uint64(len(r.slots)-1)]
	switch {
	case *at == cl:
		*at = nil
	case r.overflow[cl.mid] == cl:
		delete(r.overflow, cl.mid)
	default:
		return
	}
	r.count--
}

// clear ends all registrations and calls visit for each call. r.mu is held.
func (r *ring) clear(visit func(*Call)) {
	slots, overflow := r.slots, r.overflow
	r.slots, r.overflow, r.count = nil, nil, 0
	for _, cl := range slots {
		if cl != nil {
			visit(cl)
		}
	}
	for _, cl := range overflow {
		visit(cl)
	}
}

// rememberedIDs is how many cancelled requests a connection remembers.
const rememberedIDs = 1024

// cancelledIDs remembers the ids of the last cancelled requests: some servers answer such a request twice, or
// answer the CANCEL itself.
type cancelledIDs struct {
	ids []uint64 // a ring, allocated on first use
	n   uint64   // how many have been added
}

func (m *cancelledIDs) add(mid uint64) {
	if m.ids == nil {
		m.ids = make([]uint64, rememberedIDs)
	}
	m.ids[m.n%rememberedIDs] = mid
	m.n++
}

func (m *cancelledIDs) has(mid uint64) bool {
	for i := range min(m.n, rememberedIDs) {
		if m.ids[i] == mid {
			return true
		}
	}
	return false
}
