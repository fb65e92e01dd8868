package h2http

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/internal/fields"
	"github.com/tarn-go/tarn/internal/monotonic"
)

// serverConn is one HTTP/2 connection of a server. It is its connection's h2.Handler.
type serverConn struct {
	engine     *engine
	h2         *h2.Conn
	nc         net.Conn
	handler    http.Handler
	ctx        context.Context
	remoteAddr string
	tls        *tls.ConnectionState // nil: unencrypted
	proxied    bool                 // the client is an intermediary; the reading goroutine's own
	badTLS     bool                 // its TLS version or cipher suite is prohibited: no request is served

	greeting *time.Timer // ends the connection of a client whose SETTINGS do not come

	mu     sync.Mutex
	active int // exchanges; counted for ConnState alone
}

// prefaceTimeout is how long a client may take for its first SETTINGS, as in net/http.
const prefaceTimeout = 10 * time.Second

var (
	_ h2.Handler      = (*serverConn)(nil)
	_ h2.ConnHandler  = (*serverConn)(nil)
	_ h2.FaultHandler = (*serverConn)(nil)
)

// OnHeaders starts an exchange, or ends its request.
func (c *serverConn) OnHeaders(s *h2.Stream, h *h2.Header, e h2.Ending) {
	if x, ok := s.Value.(*exchange); ok {
		x.onTrailers(s, h)
		return
	}
	if c.badTLS { // a request that has come before the connection's end
		s.Reset(h2.InadequateSecurity)
		s.Release()
		return
	}
	x := newExchange(c, s, h, e)
	if x == nil {
		return
	}
	s.Value = x
	if c.engine.requests.begin() {
		x.began = monotonic.Of(c.h2.ReadAt())
	}
	s.Starting()
	c.exchangeBegun()
	c.engine.setTimers(x)
	c.engine.workers.Run(x)
}

// needsNoHeader reports whether the server's handler is marked as one that needs no Header.
func (c *serverConn) needsNoHeader() bool {
	s, ok := c.handler.(serverHandler)
	return ok && fields.Suffice(s.srv.Handler)
}

// OnData passes content on, or drops it when its stream has been released.
func (c *serverConn) OnData(s *h2.Stream, b tarn.Buffer, e h2.Ending) {
	if x, ok := s.Value.(*exchange); ok {
		x.body.put(b, e)
		return
	}
	b.Free()
}

// OnReset ends an exchange early.
func (c *serverConn) OnReset(s *h2.Stream, err error) {
	if x, ok := s.Value.(*exchange); ok {
		x.fail(resetOf(server, s.ID(), err))
	}
}

// OnStreamFault counts an error of the client's.
func (c *serverConn) OnStreamFault(err *h2.StreamError) {
	countError(c.engine.srv.HTTP2, streamError(err.Code))
}

// OnSettings ends the wait for the client's preface.
func (c *serverConn) OnSettings(*h2.Conn) {
	c.greeting.Stop()
	c.state(http.StateActive)
	c.state(http.StateIdle)
}

// OnGoAway does nothing: streams that are open go on.
func (c *serverConn) OnGoAway(*h2.Conn, *h2.GoAwayError) {}

// OnIdle does nothing: h2.Config.IdleTimeout ends the connection.
func (c *serverConn) OnIdle(*h2.Conn) {}

func (c *serverConn) state(s http.ConnState) { c.engine.report(c.nc, s) }

// exchangeBegun and exchangeEnded call the user's ConnState when the connection becomes
// busy and idle.
func (c *serverConn) exchangeBegun() {
	if c.engine.srv.ConnState == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active++; c.active == 1 {
		c.state(http.StateActive)
	}
}

func (c *serverConn) exchangeEnded() {
	if c.engine.srv.ConnState == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active--; c.active == 0 {
		c.state(http.StateIdle)
	}
}
