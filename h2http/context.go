package h2http

import (
	"context"
	"sync"
	"time"
)

// streamContext is the context of one request on a server. It is part of the exchange,
// so that it costs no allocation until Done is called. Its methods are safe for
// concurrent use.
type streamContext struct {
	parent context.Context // the connection's

	mu     sync.Mutex
	done   chan struct{} // made by Done
	err    error
	afters []*afterFunc
	stop   func() bool // ends the registration with parent; nil: none
}

// afterFunc is one registration of AfterFunc.
type afterFunc struct{ f func() }

// Deadline is the connection's.
func (c *streamContext) Deadline() (time.Time, bool) { return c.parent.Deadline() }

// Value is the connection's.
func (c *streamContext) Value(key any) any { return c.parent.Value(key) }

// Done is closed when the stream or the connection has ended or the handler has
// returned.
func (c *streamContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.follow()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.err != nil {
			close(c.done)
		}
	}
	return c.done
}

// follow registers with the parent when something waits for the end. c.mu is held.
func (c *streamContext) follow() {
	if c.err == nil && c.stop == nil && c.parent.Done() != nil {
		c.stop = context.AfterFunc(c.parent, func() { c.end(c.parent.Err()) })
	}
}

// Err is nil until Done would be closed.
func (c *streamContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		return c.parent.Err()
	}
	return c.err
}

// AfterFunc lets package context derive contexts without a goroutine for each; see
// context.AfterFunc.
func (c *streamContext) AfterFunc(f func()) (stop func() bool) {
	a := &afterFunc{f}
	c.mu.Lock()
	c.follow()
	over := c.err != nil
	if !over {
		c.afters = append(c.afters, a)
	}
	c.mu.Unlock()
	if over {
		go f()
	}
	return func() bool { return c.unregister(a) }
}

func (c *streamContext) unregister(a *afterFunc) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, x := range c.afters {
		if x == a {
			last := len(c.afters) - 1
			c.afters[i] = c.afters[last]
			c.afters[last] = nil
			c.afters = c.afters[:last]
			return true
		}
	}
	return false
}

// end ends the context with err unless it has ended already.
func (c *streamContext) end(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	if c.done != nil {
		close(c.done)
	}
	afters, stop := c.afters, c.stop
	c.afters = nil
	c.mu.Unlock()
	if stop != nil {
		stop()
	}
	for _, a := range afters {
		go a.f()
	}
}
