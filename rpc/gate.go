package rpc

import "sync"

// event is an event at a gate.
type event uint8

const (
	headerEvent  event = 1 << iota // the response's header has come
	messageEvent                   // a message is complete, or must be refused
	endEvent                       // no further event follows
)

// gate is where goroutines wait for events: a condition variable whose waiters can give up. Each waiter has
// its own channel, so that none takes another's wake-up. It is guarded by its owner's mutex. The zero gate is
// ready.
type gate struct {
	own   waiter  // for the first goroutine that waits: few gates ever have two
	first *waiter // the waiting goroutines, linked by next
}

type waiter struct {
	woken  chan struct{} // holds one
	events event
	busy   bool // from wait's beginning to its end
	next   *waiter
}

// wait unlocks mu until one of events is announced; false: done was closed before that. A nil done is never
// closed. mu is locked again afterwards, and the announced event may no longer hold.
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
		<-w.woken // announced meanwhile: empty the channel
		announced = true
	}
	w.busy = false
	return announced
}

// spare returns the channel of the first waiter, which is nil if there was none, or if it still waits: the gate makes another if it needs one.
func (g *gate) spare() chan struct{} {
	if g.own.busy {
		return nil
	}
	c := g.own.woken
	g.own.woken = nil
	return c
}

// announce wakes every goroutine that waits for one of events, and returns how many there were.
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
