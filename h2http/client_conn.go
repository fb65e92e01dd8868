package h2http

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/internal/monotonic"
)

// clientConn is one HTTP/2 connection of a client. It is its connection's h2.Handler.
type clientConn struct {
	pool  *clientPool
	group *group
	owner *singleConn // that uses it outside the pool; nil: none
	h2    *h2.Conn
	nc    net.Conn
	tls   *tls.ConnectionState // nil: unencrypted
	ready chan struct{}        // closed when the server's SETTINGS are in force, or the connection has ended

	announced bool                  // an http.Transport has called GetConn for its first request; under group.mu
	used      atomic.Bool           // a request has been sent on it
	readied   atomic.Bool           // ready is closed
	permitted atomic.Bool           // the server's SETTINGS have permitted streams
	ownEnd    atomic.Bool           // this side has called Shutdown or Close
	failure   atomic.Pointer[error] // see earlyFailure
	idleAt    monotonic.Stamp       // when the last request ended, or the connection was made; for httptrace

	// headed is the calls whose response's header has come and whose callers have not
	// been woken; the connection's goroutine's. They are woken together, when everything
	// that was received has been delivered: a caller that is woken earlier runs on another
	// processor, which is woken for it, finishes before the next one is ready, and waits
	// for work again.
	headed []*call
}

var (
	_ h2.Handler              = (*clientConn)(nil)
	_ h2.ConnHandler          = (*clientConn)(nil)
	_ h2.InformationalHandler = (*clientConn)(nil)
	_ h2.BatchHandler         = (*clientConn)(nil)
	_ h2.LimitHandler         = (*clientConn)(nil)
	_ h2.FaultHandler         = (*clientConn)(nil)
)

// newClientConn starts a connection. owner is nil for one of the pool's.
func newClientConn(g *group, nc net.Conn, owner *singleConn) *clientConn {
	c := &clientConn{pool: g.pool, group: g, owner: owner, nc: nc, ready: make(chan struct{})}
	if t, ok := nc.(interface{ ConnectionState() tls.ConnectionState }); ok {
		state := t.ConnectionState()
		c.tls = &state
	}
	c.h2 = g.pool.maker.Make(withByteTimeout(nc, g.pool.conf), c)
	c.idleAt.Set()
	c.h2.Start(func(err error) {
		c.countEnd(err)
		if c.readied.CompareAndSwap(false, true) {
			if err == nil && !c.endedHere() {
				err = io.ErrUnexpectedEOF
			}
			if err != nil {
				c.failure.CompareAndSwap(nil, &err)
			}
			close(c.ready)
		}
		g.remove(c)
		c.stateChanged()
	})
	return c
}

func (c *clientConn) readyNow() {
	if c.readied.CompareAndSwap(false, true) {
		close(c.ready)
	}
}

// permitsNone reports whether the server's SETTINGS have not permitted a stream yet. They are in force before this side is told of them
// (OnSettings), so the connection is asked first. Before them StreamLimit may be 0 because of requests that were given up.
func (c *clientConn) permitsNone() bool {
	return c.h2.Greeted() && c.h2.StreamLimit() == 0 && !c.permitted.Load()
}

// earlyFailure returns why the connection ended before the server's SETTINGS came, or the GOAWAY with an error that
// came before the first request was sent; nil: neither, or this side has ended the connection. It waits, bounded by
// ctx, for a connection that is about to end. After such a failure the next connection would fail as well.
func (c *clientConn) earlyFailure(ctx context.Context) error {
	if c.h2.Unusable() == nil {
		return nil
	}
	select {
	case <-c.ready:
	case <-ctx.Done():
		return nil
	}
	if err := c.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// shutdown ends the connection when its streams have ended.
func (c *clientConn) shutdown() {
	c.ownEnd.Store(true)
	c.h2.Shutdown("")
}

// endedHere reports whether it was this side that has ended the connection, which has ended. The error of the connection's end does not say:
// after Shutdown the server may have been first.
func (c *clientConn) endedHere() bool { return c.ownEnd.Load() || c.h2.Err() == h2.ErrClosed }

// OnHeaders passes a response, or trailers, to its call.
func (c *clientConn) OnHeaders(s *h2.Stream, h *h2.Header, e h2.Ending) {
	if call, ok := s.Value.(*call); ok {
		call.onHeaders(s, h, e)
	}
}

// OnInformational passes an informational response to its call.
func (c *clientConn) OnInformational(s *h2.Stream, h *h2.Header) {
	if call, ok := s.Value.(*call); ok {
		call.onInformational(s, h)
	}
}

// OnData passes content to its call.
func (c *clientConn) OnData(s *h2.Stream, b tarn.Buffer, e h2.Ending) {
	call, ok := s.Value.(*call)
	if !ok {
		b.Free()
		return
	}
	call.body.put(b, e)
	if e == h2.End {
		call.finished(receiving)
	}
}

// OnBatchEnd wakes the callers whose responses have begun.
func (c *clientConn) OnBatchEnd() {
	for i, call := range c.headed {
		call.wake()
		c.headed[i] = nil
	}
	c.headed = c.headed[:0]
}

// OnReset ends a call early.
func (c *clientConn) OnReset(s *h2.Stream, err error) {
	var se *h2.StreamError
	if errors.As(err, &se) && se.Fault == h2.Told {
		countError(c.pool.conf, "recv_rststream_"+codeName(se.Code))
	}
	if call, ok := s.Value.(*call); ok {
		call.onReset(resetOf(client, s.ID(), err))
	}
}

// OnStreamFault counts an error of the server's.
func (c *clientConn) OnStreamFault(err *h2.StreamError) {
	countError(c.pool.conf, streamError(err.Code))
}

// OnSettings marks the connection ready.
func (c *clientConn) OnSettings(h *h2.Conn) {
	c.OnStreamLimit(h)
	c.readyNow()
}

// OnStreamLimit informs the connection's owner that the server permits more or fewer
// streams.
func (c *clientConn) OnStreamLimit(h *h2.Conn) {
	if h.StreamLimit() > 0 {
		c.permitted.Store(true)
	}
	c.stateChanged()
}

// OnGoAway takes the connection out of use for further requests.
func (c *clientConn) OnGoAway(_ *h2.Conn, away *h2.GoAwayError) {
	if away.Code != h2.NoError {
		countError(c.pool.conf, "recv_goaway_"+codeName(away.Code))
		if !c.used.Load() {
			err := error(away)
			c.failure.CompareAndSwap(nil, &err)
		}
	}
	c.group.remove(c)
	c.stateChanged()
}

// stateChanged informs the connection's owner.
func (c *clientConn) stateChanged() {
	if c.owner != nil {
		c.owner.stateChanged()
	}
}

// OnIdle notes the time for httptrace.
func (c *clientConn) OnIdle(*h2.Conn) { c.idleAt.Set() }

// gotConn returns what httptrace's GotConn gets before a request is sent.
func (c *clientConn) gotConn() httptrace.GotConnInfo {
	info := httptrace.GotConnInfo{Conn: c.nc, Reused: c.used.Load()}
	if info.Reused && c.h2.Streams() == 0 {
		info.WasIdle, info.IdleTime = true, c.idleAt.Since()
	}
	return info
}
