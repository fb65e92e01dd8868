package rpc

import "sync"

const (
	// gatherLimit is how many bytes of incomplete unary requests a connection
	// receives before it holds requests back.
	gatherLimit = 32 << 20
	// overdraft is how many bytes more may come for requests that were let through
	// then, so that some can always be completed.
	overdraft = 16 << 20
	// gatherMost is how many bytes of incomplete requests a connection holds at most,
	// those included that came through windows which were open before.
	gatherMost = 256 << 20
)

// admission bounds what a connection holds of unary requests before their handlers
// start. Up to gatherLimit each request gets its window back as it arrives. Beyond
// that, requests are let through in the order in which they asked, as far as overdraft
// goes; the windows of the others stay shut. A request that would make all of them
// hold more than gatherMost is refused.
type admission struct {
	mu       sync.Mutex
	gathered int // bytes given back, of requests that are incomplete
	drawn    int // bytes of overdraft in use
	held     int // bytes of waiting requests
	waiting  []*serverCall
}

// admitted is one call's part of its connection's admission; guarded by
// admission.mu.
type admitted struct {
	gathered int
	drawn    int
	held     int
	missing  int // with held
}

// verdict on the bytes that have come for a request.
type admissionVerdict uint8

const (
	admit  admissionVerdict = iota // give their window back
	hold                           // leave it shut until another request's release
	refuse                         // end the call
)

// ask decides about n bytes of c whose window has not been given back, when missing
// bytes have yet to come.
func (a *admission) ask(c *serverCall, n, missing int) admissionVerdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := &c.admitted
	if p.held == 0 {
		if a.let(c, n, missing) {
			return admit
		}
		a.waiting = append(a.waiting, c)
	}
	a.held += n - p.held
	p.held, p.missing = n, missing
	if a.gathered+a.held > gatherMost {
		return refuse
	}
	return hold
}

// let lets n bytes of c through if it can. mu is held.
func (a *admission) let(c *serverCall, n, missing int) bool {
	p := &c.admitted
	if p.drawn == 0 && a.gathered+n > gatherLimit {
		if a.drawn > 0 && a.drawn+missing > overdraft {
			return false
		}
		p.drawn = missing
		a.drawn += missing
	}
	p.gathered += n
	a.gathered += n
	return true
}

// release ends c's part, and returns the calls that are let through instead: their
// windows must be given back.
func (a *admission) release(c *serverCall) (next []*serverCall) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gathered -= c.admitted.gathered
	a.drawn -= c.admitted.drawn
	a.held -= c.admitted.held
	c.admitted = admitted{}
	kept := a.waiting[:0]
	for _, w := range a.waiting {
		if w == c {
			continue
		}
		n := w.admitted.held
		if len(kept) > 0 || !a.let(w, n, w.admitted.missing) {
			kept = append(kept, w)
			continue
		}
		a.held -= n
		w.admitted.held = 0
		next = append(next, w)
	}
	clear(a.waiting[len(kept):])
	a.waiting = kept
	return next
}
