package rpc

import "sync"

const (
	// gatherMost is how many bytes of memory a connection holds at most for incomplete unary requests,
	// including those that came through windows which were open before.
	gatherMost = 256 << 20
	// gatherShare is the part of that, one in gatherShare, that requests may take before
	// any is held back.
	gatherShare = 4
	// overdraftShare is the part, one in overdraftShare, that requests may take beyond it, so that some can
	// always be completed.
	overdraftShare = 16
)

// admission bounds the memory that a connection holds for unary requests before their handlers start. Up to a
// gatherShare of most, each request gets its window back as it arrives. Beyond that, requests are let through
// in the order in which they asked, as far as the overdraft allows, and at least one; the windows of the
// others stay closed. A request that would make all of them hold more than most is refused.
type admission struct {
	most int // bytes; set before any request asks

	mu       sync.Mutex
	gathered int // memory of requests that were let through, in bytes
	drawn    int // bytes of overdraft in use
	held     int // memory of waiting requests
	waiting  []*serverCall
}

// admitted is one call's share of its connection's admission; guarded by admission.mu.
type admitted struct {
	gathered int
	drawn    int
	held     int
	missing  int // with held
}

// admissionVerdict says what to do with the window of the bytes that have come for a request.
type admissionVerdict uint8

const (
	admit  admissionVerdict = iota // give the window back
	hold                           // keep it closed until another request's release
	refuse                         // end the call
)

// ask decides about a request that takes memory bytes, when missing bytes have yet to come.
func (a *admission) ask(c *serverCall, memory, missing int) admissionVerdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := &c.admitted
	if p.held == 0 {
		// A request that would take overdraft does not pass those that wait for it.
		if (len(a.waiting) == 0 || a.shares(c, memory)) && a.let(c, memory, missing) {
			return admit
		}
		a.waiting = append(a.waiting, c)
		a.gathered -= p.gathered
		p.gathered = 0
	}
	a.held += memory - p.held
	p.held, p.missing = memory, missing
	if a.gathered+a.held > a.most {
		return refuse
	}
	return hold
}

// shares reports whether a request of c that takes memory bytes needs no overdraft, or has it. mu is held.
func (a *admission) shares(c *serverCall, memory int) bool {
	p := &c.admitted
	others := a.gathered - p.gathered + a.held - p.held
	return p.drawn > 0 || others+memory <= a.most/gatherShare
}

// let lets a request of c that takes memory bytes continue if possible. mu is held.
func (a *admission) let(c *serverCall, memory, missing int) bool {
	p := &c.admitted
	if !a.shares(c, memory) {
		if a.drawn > 0 && missing > a.most/overdraftShare-a.drawn { // the sum may overflow
			return false
		}
		p.drawn = missing
		a.drawn += missing
	}
	a.gathered += memory - p.gathered
	p.gathered = memory
	return true
}

// release ends c's share, and returns the calls that are let through instead: their windows must be given
// back.
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
