package conn

import (
	"context"
	"sync"
)

// credits counts the credits that the server has granted (MS-SMB2 3.2.4.1.2): a request that moves up to 64
// KiB costs one credit and one MessageId. No more are used than granted: callers wait for credits in the
// order of their calls.
type credits struct {
	mu          sync.Mutex
	avail       int    // available
	outstanding int    // charged to requests not yet answered
	parked      int    // requests with an interim reply; the final reply may grant credits
	next        uint64 // the next MessageId
	target      int    // how many to hold in total
	waiting     waitList
	err         error
	starved     func(error) // is called with errStarved: no later request could be sent either
}

// creditWait is the place of one waiting call in the queue. It is part of the slot.
type creditWait struct {
	want, least int
	got         int
	mid         uint64
	err         error
	together    bool // all of them are needed, or none
	prev, next  *Call
	queued      bool
}

// errStarved is returned when credits are missing and no request is in flight whose reply could grant any.
var errStarved = ProtocolError("it grants too few credits for any request")

type waitList struct{ head, tail *Call }

func (l *waitList) push(cl *Call) {
	w := &cl.wait
	w.prev, w.next, w.queued = l.tail, nil, true
	if l.tail == nil {
		l.head = cl
	} else {
		l.tail.wait.next = cl
	}
	l.tail = cl
}

func (l *waitList) drop(cl *Call) {
	w := &cl.wait
	if w.prev == nil {
		l.head = w.next
	} else {
		w.prev.wait.next = w.next
	}
	if w.next == nil {
		l.tail = w.prev
	} else {
		w.next.wait.prev = w.prev
	}
	w.prev, w.next, w.queued = nil, nil, false
}

// take takes up to want credits, at least least, when that many are available. It takes fewer than want only
// when the server has never granted that many. k.mu is held.
func (k *credits) take(want, least int) (mid uint64, got int, ok bool) {
	switch {
	case k.avail >= want:
		got = want
	case k.avail+k.outstanding < want && k.avail >= least:
		got = k.avail
	default:
		return 0, 0, false
	}
	mid = k.next
	k.next += uint64(got)
	k.avail -= got
	k.outstanding += got
	return mid, got, true
}

// try takes credits without waiting; ok is false when too few are available.
func (k *credits) try(want, least int) (mid uint64, got int, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil || k.waiting.head != nil {
		return 0, 0, false
	}
	return k.take(want, least)
}

// acquire takes credits for cl and waits for them. The wait is ended by the done channel of cl, which is not
// registered yet.
func (k *credits) acquire(ctx context.Context, cl *Call, want, least int) (mid uint64, got int, err error) {
	return k.acquireFor(ctx, cl, creditWait{want: want, least: least})
}

// acquireAll is acquire for requests that are sent as one frame. It fails with ErrNoCredits as soon as it is
// clear that the server does not grant that many: then they must be sent one by one.
func (k *credits) acquireAll(ctx context.Context, cl *Call, want int) (mid uint64, err error) {
	mid, _, err = k.acquireFor(ctx, cl, creditWait{want: want, least: want, together: true})
	return mid, err
}

func (k *credits) acquireFor(ctx context.Context, cl *Call, w creditWait) (mid uint64, got int, err error) {
	// A request of an ended context is not sent, even if its reply would arrive before the caller waits.
	if ctx.Err() != nil {
		return 0, 0, ContextError(ctx)
	}
	k.mu.Lock()
	if k.err != nil {
		k.mu.Unlock()
		return 0, 0, k.err
	}
	if k.waiting.head == nil {
		if mid, got, ok := k.take(w.want, w.least); ok {
			k.mu.Unlock()
			return mid, got, nil
		}
	}
	cl.wait = w
	k.waiting.push(cl)
	k.serve()
	k.mu.Unlock()
	select {
	case <-cl.done:
	case <-ctx.Done():
		k.mu.Lock()
		if cl.wait.queued {
			k.waiting.drop(cl)
			k.serve()
			k.mu.Unlock()
			return 0, 0, ContextError(ctx)
		}
		k.mu.Unlock()
		<-cl.done // the credits were taken meanwhile and must be used
	}
	if cl.wait.err == errStarved {
		k.starved(errStarved)
	}
	return cl.wait.mid, cl.wait.got, cl.wait.err
}

// serve gives available credits to waiting calls, in order. k.mu is held.
func (k *credits) serve() {
	for k.waiting.head != nil {
		cl := k.waiting.head
		w := &cl.wait
		mid, got, ok := k.take(w.want, w.least)
		switch {
		case ok:
		case w.together && k.avail+k.outstanding < w.want:
			w.err = ErrNoCredits
		default:
			if k.outstanding > 0 || k.parked > 0 {
				return
			}
			w.err = errStarved
		}
		w.mid, w.got = mid, got
		k.waiting.drop(cl)
		cl.done <- struct{}{}
	}
}

// answered counts a reply: a request that was charged charge credits is answered, and the reply grants
// granted. parked is the change in the number of requests with an interim reply.
func (k *credits) answered(charge, granted, parked int) {
	k.mu.Lock()
	k.outstanding -= charge
	k.parked += parked
	k.avail = min(k.avail+granted, 1<<20)
	if k.waiting.head != nil {
		k.serve()
	}
	k.mu.Unlock()
}

// request is how many credits to request along with a request that costs charge.
func (k *credits) request(charge int) uint16 {
	k.mu.Lock()
	short := k.target - k.avail - k.outstanding
	k.mu.Unlock()
	return uint16(min(charge+max(short, 0), 65535))
}

// total is how many credits the connection holds, available and charged.
func (k *credits) total() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.avail + k.outstanding
}

// fail makes every waiting call return err.
func (k *credits) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err == nil {
		k.err = err
	}
	for k.waiting.head != nil {
		cl := k.waiting.head
		cl.wait.err = err
		k.waiting.drop(cl)
		cl.done <- struct{}{}
	}
}
