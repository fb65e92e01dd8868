package h2http

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/tarn-go/tarn/internal/greeting"
)

// acceptor accepts connections, keeps those that use HTTP/2, and is the listener
// from which net/http accepts the others.
type acceptor struct {
	net.Listener
	server *Server
	engine *engine         // server's
	base   context.Context // the parent of all its requests' contexts
	tls    *tls.Config     // nil: the listener's connections are served as they are
	http2  bool            // is served, unencrypted
	http1  bool            // the same
	others chan accepted
	passed net.Conn // what Accept has returned last; nil: an error, or nothing

	begin  sync.Once // begins accepting
	once   sync.Once // closes closed
	closed chan struct{}
}

// newcomer is a connection of which the protocol is not known yet.
type newcomer struct {
	nc   net.Conn        // the listener's
	conn net.Conn        // nc, or TLS over it: what net/http's hooks are called with
	ctx  context.Context // the parent of its requests' contexts
}

// accepted is what Accept returns.
type accepted struct {
	conn net.Conn
	ctx  context.Context // of conn
	err  error
}

func newAcceptor(l net.Listener, s *Server, base context.Context) *acceptor {
	return &acceptor{Listener: l, server: s, engine: s.engine, base: base,
		others: make(chan accepted), closed: make(chan struct{})}
}

func (a *acceptor) serve() error {
	defer a.Close()
	name := a.Addr().String()
	a.server.first.CompareAndSwap(nil, &name)
	return a.server.http.Serve(a)
}

// accept accepts connections until the listener fails.
func (a *acceptor) accept() {
	for {
		nc, err := a.Listener.Accept()
		if err != nil {
			if !a.pass(accepted{err: err}) {
				return
			}
			//lint:ignore SA1019 it decides here what it decides in http.Server.Serve
			if ne, ok := err.(net.Error); !ok || !ne.Temporary() {
				return
			}
			continue
		}
		if !a.server.conns.enter(nc) {
			nc.Close()
			return
		}
		go a.route(a.introduce(nc))
	}
}

// introduce calls the hooks that net/http calls for each connection that it has accepted, before anything of it is read.
func (a *acceptor) introduce(nc net.Conn) *newcomer {
	c := &newcomer{nc: nc, conn: nc}
	if a.tls != nil {
		c.conn = tls.Server(nc, a.tls)
	}
	srv := a.engine.srv
	ctx := context.WithValue(a.base, http.ServerContextKey, srv)
	if f := srv.ConnContext; f != nil {
		if ctx = f(ctx, c.conn); ctx == nil {
			panic("ConnContext returned nil")
		}
	}
	c.ctx = context.WithValue(ctx, http.LocalAddrContextKey, c.conn.LocalAddr())
	a.engine.report(c.conn, http.StateNew)
	return c
}

// pass hands net/http a connection or an error; false: it does not accept any more.
func (a *acceptor) pass(o accepted) bool {
	select {
	case a.others <- o:
		return true
	case <-a.closed:
		return false
	}
}

// route finds out which protocol c uses and has it served.
func (a *acceptor) route(c *newcomer) {
	if t, ok := c.conn.(*tls.Conn); ok {
		a.routeTLS(c, t)
		return
	}
	if !a.http2 {
		a.other(c, c.conn)
		return
	}
	a.limit(c.nc, headerTimeout(a.engine.srv))
	conn, found, err := greeting.Of(c.nc)
	if err != nil {
		a.closeUnserved(c)
		return
	}
	c.nc.SetDeadline(time.Time{})
	if found == greeting.HTTP1 && a.http1 { // without HTTP/1.1 it is a bad preface
		a.other(c, conn)
		return
	}
	p := prefaceComing
	if found == greeting.HTTP2Read {
		p = prefaceRead
	}
	a.mine(c, conn, p)
}

// routeTLS is route for a connection over TLS.
func (a *acceptor) routeTLS(c *newcomer, t *tls.Conn) {
	a.limit(c.nc, handshakeTimeout(a.engine.srv))
	if err := a.handshake(c.ctx, t); err != nil {
		if err == errHookPanicked {
			a.closeUnserved(c)
			return
		}
		reason := err.Error()
		if re, ok := err.(tls.RecordHeaderError); ok && re.Conn != nil && looksLikeHTTP(re.RecordHeader) {
			io.WriteString(re.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
			reason = "client sent an HTTP request to an HTTPS server"
		}
		a.engine.logf("http: TLS handshake error from %s: %v", c.nc.RemoteAddr(), reason) // net/http's text, for which programs look
		a.closeUnserved(c)
		return
	}
	c.nc.SetDeadline(time.Time{})
	if t.ConnectionState().NegotiatedProtocol != protoTLS {
		a.other(c, t)
		return
	}
	a.mine(c, t, prefaceComing)
}

// errHookPanicked is returned by handshake when a hook has panicked, which it has logged.
var errHookPanicked = errors.New("h2http: a hook of the TLS configuration panicked")

// handshake makes the handshake of c. Like net/http it recovers from a panic of a hook of the server's tls.Config.
func (a *acceptor) handshake(ctx context.Context, c *tls.Conn) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = errHookPanicked
			a.engine.panicked(c.RemoteAddr(), v)
		}
	}()
	return c.HandshakeContext(ctx)
}

// limit bounds how long nc may take until its protocol is known.
func (a *acceptor) limit(nc net.Conn, d time.Duration) {
	if d > 0 {
		nc.SetDeadline(time.Now().Add(d))
	}
}

// headerTimeout is how long a request's header may take, as in net/http.
func headerTimeout(srv *http.Server) time.Duration {
	if srv.ReadHeaderTimeout != 0 {
		return srv.ReadHeaderTimeout
	}
	return srv.ReadTimeout
}

// handshakeTimeout is the least of the server's timeouts that are set, as in net/http.
func handshakeTimeout(srv *http.Server) time.Duration {
	var least time.Duration
	for _, d := range []time.Duration{srv.ReadHeaderTimeout, srv.ReadTimeout, srv.WriteTimeout} {
		if d > 0 && (least == 0 || d < least) {
			least = d
		}
	}
	return least
}

// looksLikeHTTP reports whether what came instead of a TLS record is HTTP/1.
func looksLikeHTTP(header [5]byte) bool {
	switch string(header[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO":
		return true
	}
	return strings.HasPrefix(string(header[:]), "PRI ")
}

// closeUnserved closes a connection that is not served.
func (a *acceptor) closeUnserved(c *newcomer) {
	a.server.conns.known(c.nc)
	c.nc.Close()
	a.engine.report(c.conn, http.StateClosed)
}

// other passes a connection of HTTP/1.1 on to net/http: conn, which reads again what has been read of c. When the server ends it is
// closed, as by net/http.
func (a *acceptor) other(c *newcomer, conn net.Conn) {
	a.server.conns.known(c.nc)
	if !a.pass(accepted{conn: conn, ctx: c.ctx}) {
		a.closeUnserved(c)
	}
}

// mine serves a connection of HTTP/2.
func (a *acceptor) mine(c *newcomer, conn net.Conn, p preface) {
	a.server.begin(conn, serverHandler{a.engine.srv}, c.ctx, p, func() { a.engine.report(c.conn, http.StateClosed) })
	a.server.conns.known(c.nc)
}

// serverHandler is what net/http wraps a server's Handler in.
type serverHandler struct{ srv *http.Server }

func (h serverHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.of(r).ServeHTTP(w, r) }

// of returns the handler of r.
func (h serverHandler) of(r *http.Request) http.Handler {
	switch {
	case !h.srv.DisableGeneralOptionsHandler && r.RequestURI == "*" && r.Method == http.MethodOptions:
		return http.HandlerFunc(generalOptions)
	case h.srv.Handler == nil:
		return http.DefaultServeMux
	}
	return h.srv.Handler
}

// generalOptions answers OPTIONS *.
func generalOptions(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Length", "0")
	io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, 4<<10))
}

// Accept returns what net/http is to serve: the connections of HTTP/1.1. The first call begins accepting: by then
// Shutdown knows of the listener. When net/http has closed that, Accept returns an error once no connection is left, since
// Shutdown waits until then.
func (a *acceptor) Accept() (net.Conn, error) {
	a.begin.Do(func() { go a.accept() })
	if a.passed != nil { // net/http has called its hooks for it
		a.server.passed.Delete(a.passed)
		a.passed = nil
	}
	select {
	case o := <-a.others:
		if o.err == nil {
			a.server.passed.Store(o.conn, o.ctx)
			a.passed = o.conn
			return o.conn, nil
		}
		if !a.isClosed() {
			return nil, o.err
		}
	case <-a.closed:
	}
	a.server.stopped()
	select {
	case <-a.server.conns.ended:
	case <-a.server.released:
	}
	return nil, net.ErrClosed
}

func (a *acceptor) isClosed() bool {
	select {
	case <-a.closed:
		return true
	default:
		return false
	}
}

// Close ends accepting.
func (a *acceptor) Close() error {
	var err error
	a.once.Do(func() {
		close(a.closed)
		err = a.Listener.Close()
	})
	return err
}
