// Package timers keeps the deadlines of many calls on one runtime timer, so that a call with a deadline needs
// no timer, channel or closure.
package timers

import (
	"sync"
	"time"
)

// Entry is embedded in an object that has a deadline. The zero Entry is in no heap.
type Entry struct {
	at    time.Time
	index int // index in the heap plus one; 0: in none
}

// Firer is called when its deadline has passed, on a goroutine of the runtime's timers, without a lock of the
// heap held; it must not block.
type Firer interface{ DeadlinePassed() }

// Heap orders entries by deadline. The zero Heap is ready; it is safe for
// concurrent use. It has no goroutine of its own and needs no closing when no
// entry is in it.
type Heap struct {
	mu    sync.Mutex
	es    []item
	timer *time.Timer
	armed time.Time // when the timer fires; zero: it is not set
	fired []Firer
}

// item is an entry in a heap, and whom to call for it.
type item struct {
	e    *Entry
	fire Firer
}

// Set sets e's deadline. e must not be in a heap.
func (e *Entry) Set(at time.Time) { e.at = at }

// At is the deadline that Set was given; the zero time before that.
func (e *Entry) At() time.Time { return e.at }

// Add adds e to the heap: f is called once when its deadline has passed, unless Remove is called first. e
// must not be in a heap.
func (h *Heap) Add(e *Entry, f Firer) {
	h.mu.Lock()
	h.es = append(h.es, item{e, f})
	e.index = len(h.es)
	h.up(len(h.es) - 1)
	h.arm()
	h.mu.Unlock()
}

// Remove removes e. It does nothing when e is in no heap, has fired or is about to fire.
func (h *Heap) Remove(e *Entry) {
	h.mu.Lock()
	h.remove(e)
	// The timer is left set: firing early costs less than being changed at the end of every call.
	h.mu.Unlock()
}

// Len is the number of entries.
func (h *Heap) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.es)
}

// Stop removes all entries without calling them.
func (h *Heap) Stop() {
	h.mu.Lock()
	for _, i := range h.es {
		i.e.index = 0
	}
	clear(h.es)
	h.es = h.es[:0]
	if h.timer != nil {
		h.timer.Stop()
	}
	h.armed = time.Time{}
	h.mu.Unlock()
}

func (h *Heap) remove(e *Entry) {
	if e.index == 0 {
		return
	}
	i, last := e.index-1, len(h.es)-1
	if i != last {
		h.swap(i, last)
	}
	h.es[last] = item{}
	h.es = h.es[:last]
	if i != last {
		h.down(i)
		h.up(i)
	}
	e.index = 0
}

// arm sets the timer for the first entry unless it is set for that or earlier.
func (h *Heap) arm() {
	if len(h.es) == 0 {
		return
	}
	at := h.es[0].e.at
	if !h.armed.IsZero() && !h.armed.After(at) {
		return
	}
	h.armed = at
	if h.timer == nil {
		h.timer = time.AfterFunc(time.Until(at), h.expire)
		return
	}
	h.timer.Reset(time.Until(at))
}

func (h *Heap) expire() {
	h.mu.Lock()
	now := time.Now()
	h.armed = time.Time{}
	fired := h.fired[:0]
	h.fired = nil
	for len(h.es) > 0 && !h.es[0].e.at.After(now) {
		fired = append(fired, h.es[0].fire)
		h.remove(h.es[0].e)
	}
	h.arm()
	h.mu.Unlock()
	for _, f := range fired {
		f.DeadlinePassed()
	}
	clear(fired)
	h.mu.Lock()
	if h.fired = fired[:0]; len(h.es) == 0 && h.armed.IsZero() { // release the references
		h.es, h.fired, h.timer = nil, nil, nil
	}
	h.mu.Unlock()
}

func (h *Heap) up(i int) {
	for i > 0 {
		p := (i - 1) / 2
		if !h.es[i].e.at.Before(h.es[p].e.at) {
			return
		}
		h.swap(i, p)
		i = p
	}
}

func (h *Heap) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(h.es) {
			return
		}
		if c+1 < len(h.es) && h.es[c+1].e.at.Before(h.es[c].e.at) {
			c++
		}
		if !h.es[c].e.at.Before(h.es[i].e.at) {
			return
		}
		h.swap(i, c)
		i = c
	}
}

func (h *Heap) swap(i, j int) {
	h.es[i], h.es[j] = h.es[j], h.es[i]
	h.es[i].e.index, h.es[j].e.index = i+1, j+1
}
