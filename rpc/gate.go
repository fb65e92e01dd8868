package rpc

import "sync"

// event is what goroutines wait for at a gate.
type event uint8

const (
	headerEvent  event = 1 << iota // the response's header has come
	messageEvent                   // a message is complete, or must be refused
	endEvent                       // nothing more will come
)

// gate is where goroutines wait for events: a condition variable whose waiters
// can give up. Each waiter has a channel of its own, so that one never takes
// another's wake-up. It is guarded by its owner's mutex. The zero gate is ready.
type gate struct {
	own   waiter  // for the first to wait: few gates ever have two
	first *waiter // those that wait, linked by next
}

type waiter struct {
	woken  chan struct{} // holds one
	events event
	busy   bool // from wait's beginning to its end
	next   *waiter
}

// wait gives mu up until one of events is announced; false: done was closed
// before that. A nil done is never closed. mu is held again afterwards, and what
// was announced may no longer be so.
func (g *gate) wait(mu *sync.Mutex, events event, done <-chan struct{}) bool {
	w := &g.own
	if w.busy {
		w = new(waiter)
	}
	if w.woken == nil {
		w.woken = make(chan struct{}, 1)
	}
	w.busy, w.events = true, events
	w.next, g.first = g.first, w
	mu.Unlock()
	announced := true
	if done == nil {
		<-w.woken
	} else {
		select {
		case <-w.woken:
		case <-done:
			announced = false
		}
	}
	mu.Lock()
	if !announced && !g.remove(w) {
		<-w.woken // announced meanwhile: the channel must be left empty
		announced = true
	}
	w.busy = false
	return announced
}

// announce wakes everyone who waits for one of events, and returns how many there
// were.
func (g *gate) announce(events event) (n int) {
	for p := &g.first; *p != nil; {
		w := *p
		if w.events&events == 0 {
			p = &w.next
			continue
		}
		*p, w.next = w.next, nil
		w.woken <- struct{}{}
		n++
	}
	return n
}

// awaited reports whether a goroutine waits for one of events.
func (g *gate) awaited(events event) bool {
	for w := g.first; w != nil; w = w.next {
		if w.events&events != 0 {
			return true
		}
	}
	return false
}

func (g *gate) remove(w *waiter) bool {
	for p := &g.first; *p != nil; p = &(*p).next {
		if *p == w {
			*p, w.next = w.next, nil
			return true
		}
	}
	return false
}
