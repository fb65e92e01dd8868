package h2http

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
)

// NewClientConn is what http.Transport.NewClientConn (Go 1.26) calls for a connection
// that it has dialled. stateHook is called when the connection's state has changed on
// its own: a request has ended, the peer permits more or fewer streams, it has ended.
func (p pooled) NewClientConn(nc net.Conn, stateHook func()) (http.RoundTripper, error) {
	if err := p.Pool.begin(); err != nil {
		return nil, err
	}
	c := &singleConn{changed: make(chan struct{}), hook: stateHook}
	c.mu.Lock() // newClientConn may call stateChanged at once
	defer c.mu.Unlock()
	c.conn = newClientConn(&group{pool: p.Pool}, nc, c)
	return c, nil
}

// singleConn is a connection outside any pool: an http.ClientConn's. A request takes one
// of the streams that the peer permits, or one that has been reserved; while there is
// none it waits. Its methods are safe for concurrent use.
type singleConn struct {
	conn *clientConn
	hook func()

	mu       sync.Mutex
	reserved int
	taken    int           // by requests that have not ended
	changed  chan struct{} // closed, and made anew, when a stream may be free
}

var errConnFull = errors.New("h2http: the connection is closed or at its limit of streams")

// stateChanged is called when a request is over and when the connection's state has
// changed.
func (c *singleConn) stateChanged() {
	c.mu.Lock()
	close(c.changed)
	c.changed = make(chan struct{})
	c.mu.Unlock()
	c.hook()
}

// free returns how many more streams can be taken. c.mu is held.
func (c *singleConn) free() int {
	return max(0, c.conn.h2.StreamLimit()-c.reserved-c.taken)
}

// RoundTrip sends r on the connection, whatever host its URL names.
func (c *singleConn) RoundTrip(r *http.Request) (*http.Response, error) {
	original, end := r, func() {}
	if cancelOf(r) != nil {
		r, end = withCancel(r)
	}
	if err := c.await(r.Context()); err != nil {
		end()
		closeBody(r)
		return nil, err
	}
	if err := ended(r.Context()); err != nil { // it has its stream: one that was reserved is free again
		c.giveBack()
		end()
		closeBody(r)
		return nil, err
	}
	x := newCall(c.conn, r, httptrace.ContextClientTrace(r.Context()))
	x.onRelease = func() {
		c.giveBack()
		end()
	}
	resp, err := x.roundTrip()
	if err != nil {
		x.sending.close(r)
		x.sending.settle()
		x.callWhenReleased() // a call that has a stream is over when that is released
		return nil, err
	}
	resp.Request = original
	return resp, nil
}

// await waits until a stream is free and takes it for a request.
func (c *singleConn) await(ctx context.Context) error {
	for {
		c.mu.Lock()
		if c.reserved > 0 {
			c.reserved--
			c.taken++
			c.mu.Unlock()
			return nil
		}
		if err := c.conn.h2.Unusable(); err != nil {
			c.mu.Unlock()
			return err
		}
		if c.free() > 0 {
			c.taken++
			c.mu.Unlock()
			return nil
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// giveBack is called once for each stream taken, when its request is over.
func (c *singleConn) giveBack() {
	c.mu.Lock()
	c.taken--
	c.mu.Unlock()
	c.stateChanged()
}

// Reserve takes a stream for a request that is to come.
func (c *singleConn) Reserve() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.free() == 0 {
		return errConnFull
	}
	c.reserved++
	return nil
}

// Release gives a stream back that Reserve has taken.
func (c *singleConn) Release() {
	c.mu.Lock()
	c.reserved = max(0, c.reserved-1)
	close(c.changed)
	c.changed = make(chan struct{})
	c.mu.Unlock()
}

// Available returns how many requests can be sent without waiting; 0 after the end.
func (c *singleConn) Available() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.free()
}

// InFlight returns how many streams are reserved or taken; 0 after the end.
func (c *singleConn) InFlight() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn.h2.Unusable() != nil {
		return 0
	}
	return c.reserved + c.taken
}

// Err returns why the connection cannot be used any more; nil: it can.
func (c *singleConn) Err() error { return c.conn.h2.Unusable() }

// Close ends the connection and the requests on it.
func (c *singleConn) Close() error {
	c.conn.ownEnd.Store(true)
	return c.conn.h2.Close()
}
