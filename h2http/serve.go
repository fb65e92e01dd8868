package h2http

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Serve accepts connections on l and serves srv.Handler on them: unencrypted HTTP/2
// by this package, and HTTP/1.1 by net/http, depending on a connection's first bytes.
// Unless srv.Protocols says otherwise it serves both. No goroutine of net/http's and
// none of its buffers is kept for an HTTP/2 connection.
//
// Serve is otherwise srv.Serve: srv's settings count, srv.Shutdown and srv.Close end the
// connections, and the error is never nil; after Shutdown or Close it is
// http.ErrServerClosed. BaseContext is called twice, for either protocol.
//
// A server that has not been passed to ConfigureServer is configured with the zero
// Config; call ConfigureServer first when several listeners serve one http.Server.
func Serve(l net.Listener, srv *http.Server) error {
	e, err := serving(l, srv)
	if err != nil {
		return err
	}
	a := newAcceptor(l, e, nil)
	a.http2 = srv.Protocols == nil || srv.Protocols.UnencryptedHTTP2()
	a.http1 = srv.Protocols == nil || srv.Protocols.HTTP1()
	return a.serve()
}

// ServeTLS is Serve over TLS, where ALPN selects HTTP/2 or HTTP/1.1. The files hold a
// certificate and its key; they may be empty if srv.TLSConfig has a certificate.
func ServeTLS(l net.Listener, srv *http.Server, certFile, keyFile string) error {
	e, err := serving(l, srv)
	if err != nil {
		return err
	}
	config := srv.TLSConfig.Clone()
	http1, http2 := true, true
	if p := srv.Protocols; p != nil {
		http1, http2 = p.HTTP1(), p.HTTP2()
	}
	// In the order in which they are, as net/http: the server's order is its preference.
	protos := slices.DeleteFunc(slices.Clone(config.NextProtos), func(p string) bool { return p == protoTLS && !http2 || p == "http/1.1" && !http1 })
	if http2 && !slices.Contains(protos, protoTLS) {
		protos = append(protos, protoTLS)
	}
	if http1 && !slices.Contains(protos, "http/1.1") {
		protos = append(protos, "http/1.1")
	}
	config.NextProtos = protos
	if len(config.Certificates) == 0 && config.GetCertificate == nil && config.GetConfigForClient == nil || certFile != "" || keyFile != "" {
		cert, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			l.Close()
			return err
		}
		config.Certificates = append(config.Certificates[:len(config.Certificates):len(config.Certificates)], cert)
	}
	a := newAcceptor(l, e, config)
	a.http2 = http2
	return a.serve()
}

// serving returns the engine for srv, and closes l if there is none.
func serving(l net.Listener, srv *http.Server) (*engine, error) {
	if e := engineOf(srv); e != nil {
		return e, nil
	}
	e, err := configure(srv, nil)
	if err != nil {
		l.Close()
	}
	return e, err
}

// acceptor accepts connections, keeps those that use HTTP/2, and is the listener
// from which net/http accepts the others.
type acceptor struct {
	net.Listener
	engine *engine
	tls    *tls.Config // nil: unencrypted
	http2  bool        // is offered
	http1  bool        // is served, unencrypted
	base   context.Context
	others chan accepted

	closed chan struct{}
	once   sync.Once // closes it
	begin  sync.Once // begins accepting
	mu     sync.Mutex
	held   bool                  // Accept has returned a hold
	asked  map[net.Conn]struct{} // connections of which the protocol is not known yet
}

// accepted is what Accept returns.
type accepted struct {
	conn net.Conn
	err  error
}

func newAcceptor(l net.Listener, e *engine, config *tls.Config) *acceptor {
	a := &acceptor{Listener: l, engine: e, tls: config, base: context.Background()}
	a.others, a.closed = make(chan accepted), make(chan struct{})
	a.asked = make(map[net.Conn]struct{})
	return a
}

func (a *acceptor) serve() error {
	srv := a.engine.srv
	if srv.BaseContext != nil {
		if a.base = srv.BaseContext(a.Listener); a.base == nil {
			panic("BaseContext returned a nil context")
		}
	}
	defer a.Close()
	return srv.Serve(a)
}

// accept accepts connections until the listener fails.
func (a *acceptor) accept() {
	for {
		nc, err := a.Listener.Accept()
		if err != nil {
			if !a.pass(nil, err) {
				return
			}
			//lint:ignore SA1019 it decides here what it decides in http.Server.Serve
			if ne, ok := err.(net.Error); !ok || !ne.Temporary() {
				return
			}
			continue
		}
		if !a.enter(nc) {
			nc.Close()
			return
		}
		go a.route(nc)
	}
}

// enter enters nc among the connections whose protocol is not known yet; false: Close, which has closed those, may not have seen it.
func (a *acceptor) enter(nc net.Conn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.isClosed() {
		return false
	}
	a.asked[nc] = struct{}{}
	return true
}

// pass hands net/http a connection or an error; false: it does not accept any more.
func (a *acceptor) pass(nc net.Conn, err error) bool {
	select {
	case a.others <- accepted{nc, err}:
		return true
	case <-a.closed:
		return false
	}
}

// route finds out which protocol nc uses and has it served.
func (a *acceptor) route(nc net.Conn) {
	if a.tls != nil {
		a.routeTLS(nc)
		return
	}
	if !a.http2 {
		a.other(nc, nc)
		return
	}
	a.limit(nc, headerTimeout(a.engine.srv))
	conn, found, err := sniff(nc)
	if err != nil {
		a.drop(nc)
		return
	}
	nc.SetDeadline(time.Time{})
	if found == http1 && a.http1 { // without HTTP/1.1 it is a bad preface
		a.other(nc, conn)
		return
	}
	p := prefaceComing
	if found == http2Read {
		p = prefaceRead
	}
	a.mine(nc, conn, nil, p)
}

func (a *acceptor) routeTLS(nc net.Conn) {
	srv := a.engine.srv
	c := tls.Server(nc, a.tls)
	a.limit(nc, handshakeTimeout(srv))
	if err := a.handshake(c); err != nil {
		if err == errHookPanicked {
			a.drop(nc)
			return
		}
		reason := err.Error()
		if re, ok := err.(tls.RecordHeaderError); ok && re.Conn != nil && looksLikeHTTP(re.RecordHeader) {
			io.WriteString(re.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
			reason = "client sent an HTTP request to an HTTPS server"
		}
		a.engine.logf("h2http: TLS handshake error from %s: %v", nc.RemoteAddr(), reason)
		a.drop(nc)
		return
	}
	nc.SetDeadline(time.Time{})
	state := c.ConnectionState()
	if state.NegotiatedProtocol != protoTLS || !a.http2 {
		a.other(nc, c)
		return
	}
	a.mine(nc, c, &state, prefaceComing)
}

// errHookPanicked is returned by handshake when a hook has panicked, which it has logged.
var errHookPanicked = errors.New("h2http: a hook of the TLS configuration panicked")

// handshake makes the handshake of c. Like net/http it recovers from a panic of a hook of the server's tls.Config.
func (a *acceptor) handshake(c *tls.Conn) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = errHookPanicked
			a.engine.panicked(c.RemoteAddr(), v)
		}
	}()
	return c.Handshake()
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

func (a *acceptor) forget(nc net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.asked, nc)
}

// drop closes a connection that is not served.
func (a *acceptor) drop(nc net.Conn) {
	a.forget(nc)
	nc.Close()
}

// other passes a connection of HTTP/1.1 on to net/http.
func (a *acceptor) other(nc, conn net.Conn) {
	a.forget(nc)
	if !a.pass(conn, nil) {
		conn.Close()
	}
}

// mine serves a connection of HTTP/2.
func (a *acceptor) mine(nc, conn net.Conn, state *tls.ConnectionState, p preface) {
	e := a.engine
	ctx := context.WithValue(a.base, http.ServerContextKey, e.srv)
	if f := e.srv.ConnContext; f != nil {
		if ctx = f(ctx, conn); ctx == nil {
			panic("ConnContext returned nil")
		}
	}
	ctx = context.WithValue(ctx, http.LocalAddrContextKey, conn.LocalAddr())
	a.forget(nc)
	report := e.srv.ConnState
	if report == nil {
		report = func(net.Conn, http.ConnState) {}
	}
	report(conn, http.StateNew)
	if a.isClosed() { // meanwhile: Close did not see this connection
		conn.Close()
		report(conn, http.StateClosed)
		return
	}
	c := e.start(conn, serverHandler{e.srv}, ctx, state, p, func() { report(conn, http.StateClosed) })
	if a.isClosed() {
		c.h2.Shutdown("")
	}
}

// serverHandler is what net/http wraps a server's Handler in.
type serverHandler struct{ srv *http.Server }

func (h serverHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	handler := h.srv.Handler
	if handler == nil {
		handler = http.DefaultServeMux
	}
	if !h.srv.DisableGeneralOptionsHandler && r.RequestURI == "*" && r.Method == http.MethodOptions {
		w.Header().Set("Content-Length", "0")
		io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, 4<<10))
		return
	}
	handler.ServeHTTP(w, r)
}

// Accept returns what net/http is to serve: a connection of HTTP/1.1, and, when
// net/http shuts down with connections of HTTP/2 left, a hold. The first call begins
// accepting: by then Shutdown knows of the listener, and waits for its connections.
func (a *acceptor) Accept() (net.Conn, error) {
	a.begin.Do(func() { go a.accept() })
	select {
	case o := <-a.others:
		if o.err == nil || !a.isClosed() {
			return o.conn, o.err
		}
	case <-a.closed:
	}
	a.mu.Lock()
	again := a.held
	a.held = true
	a.mu.Unlock()
	if !again && a.engine.busy() {
		if c, err := newHold(a.engine.empty, a.engine.closeAll); err == nil {
			return c, nil
		}
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

// Close ends accepting. Connections whose protocol is not known yet are closed.
func (a *acceptor) Close() error {
	var err error
	a.once.Do(func() {
		close(a.closed)
		err = a.Listener.Close()
		a.mu.Lock()
		defer a.mu.Unlock()
		for nc := range a.asked {
			nc.Close()
		}
	})
	return err
}
