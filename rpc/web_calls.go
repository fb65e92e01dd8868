package rpc

import (
	"math/rand/v2"
	"sync"

	"github.com/tarn-go/tarn/rpc/internal/timers"
)

// webCalls are the calls that ServeHTTP is serving. They are kept in parts, each with a lock of its own, so that calls of many connections
// do not wait for one another's.
type webCalls [32]webCallsPart

// webDeadlines are the deadlines of these calls, in as many parts.
type webDeadlines [len(webCalls{})]timers.Heap

// webCallsPart has the length of a cache line.
type webCallsPart struct {
	mu     sync.Mutex
	closed bool        // no more calls are added
	calls  []*webCall  // each at its place
	few    [3]*webCall // calls begins in it
}

// add adds c to one of the parts, and its handler to handlers; not after close, so that one can wait for these then.
func (w *webCalls) add(c *webCall, handlers *sync.WaitGroup) bool {
	c.part = uint8(rand.Uint32N(uint32(len(w))))
	p := &w[c.part]
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	handlers.Add(1)
	if p.calls == nil {
		p.calls = p.few[:0]
	}
	c.place = int32(len(p.calls))
	p.calls = append(p.calls, c)
	return true
}

func (w *webCalls) remove(c *webCall) {
	p := &w[c.part]
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.calls) - 1
	moved := p.calls[last]
	p.calls[c.place], moved.place = moved, c.place
	p.calls[last] = nil
	p.calls = p.calls[:last]
}

// close lets no more calls be added, and returns those that have not been removed.
func (w *webCalls) close() []*webCall {
	var all []*webCall
	for i := range w {
		p := &w[i]
		p.mu.Lock()
		p.closed = true
		all = append(all, p.calls...)
		p.mu.Unlock()
	}
	return all
}
