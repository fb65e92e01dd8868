package h2http

import (
	"context"
	"sync"
	"time"

	"github.com/tarn-go/tarn/internal/lifetime"
)

// streamContext is the context of one request on a server. It is part of the exchange,
// so that it costs no allocation until Done is called. Its methods are safe for
// concurrent use.
type streamContext struct {
	parent context.Context // the connection's

	mu    sync.Mutex
	state lifetime.State
	stop  func() bool // ends the registration with parent; nil: none
}

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
	return c.state.Done()
}

// follow registers with the parent when something waits for the end. c.mu is held.
func (c *streamContext) follow() {
	if c.state.Err() == nil && c.stop == nil && c.parent.Done() != nil {
		c.stop = context.AfterFunc(c.parent, func() { c.end(c.parent.Err()) })
	}
}

// Err is nil until Done would be closed.
func (c *streamContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.state.Err(); err != nil {
		return err
	}
	return c.parent.Err()
}

// AfterFunc lets package context derive contexts without a goroutine for each; see
// context.AfterFunc.
func (c *streamContext) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.follow()
	a := c.state.AfterFunc(f)
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.state.Stop(a)
	}
}

// end ends the context with err unless it has ended already.
func (c *streamContext) end(err error) {
	c.mu.Lock()
	run, first := c.state.End(err)
	stop := c.stop
	c.mu.Unlock()
	if first && stop != nil {
		stop()
	}
	run.Run()
}
