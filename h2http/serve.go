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
// Unless srv.Protocols says otherwise it serves both. Of a *tls.Conn, which a listener of
// tls.NewListener accepts, ALPN selects the protocol. No goroutine of net/http's and
// none of its buffers is kept for an HTTP/2 connection.
//
// Serve is otherwise srv.Serve: srv's settings count, srv.Shutdown and srv.Close end the
// connections, and the error is never nil; after Shutdown or Close it is
// http.ErrServerClosed.
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
// certificate and its key, which take the place of those of srv.TLSConfig; they may be
// empty if that has a certificate.
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
		config.Certificates = []tls.Certificate{cert}
	}
	return newAcceptor(l, e, config).serve()
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
	tls    *tls.Config // nil: the listener's connections are served as they are
	http2  bool        // is served, unencrypted
	http1  bool        // the same
	base   context.Context
	others chan accepted
	passed net.Conn // what Accept has returned last; nil: an error, or nothing

	closed chan struct{}
	once   sync.Once // closes it
	begin  sync.Once // begins accepting
	mu     sync.Mutex
	held   bool // Accept has returned a hold
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

func newAcceptor(l net.Listener, e *engine, config *tls.Config) *acceptor {
	a := &acceptor{Listener: l, engine: e, tls: config, base: context.Background()}
	a.others, a.closed = make(chan accepted), make(chan struct{})
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
			if !a.pass(accepted{err: err}) {
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

// enter enters nc among the connections whose protocol is not known yet; false: the engine may have been found without
// connections already.
func (a *acceptor) enter(nc net.Conn) bool {
	a.engine.mu.Lock()
	defer a.engine.mu.Unlock()
	if a.isClosed() {
		return false
	}
	a.engine.asked[nc] = time.Now()
	return true
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
	conn, found, err := sniff(c.nc)
	if err != nil {
		a.drop(c)
		return
	}
	c.nc.SetDeadline(time.Time{})
	if found == http1 && a.http1 { // without HTTP/1.1 it is a bad preface
		a.other(c, conn)
		return
	}
	p := prefaceComing
	if found == http2Read {
		p = prefaceRead
	}
	a.mine(c, conn, p)
}

// routeTLS is route for a connection over TLS.
func (a *acceptor) routeTLS(c *newcomer, t *tls.Conn) {
	a.limit(c.nc, handshakeTimeout(a.engine.srv))
	if err := a.handshake(c.ctx, t); err != nil {
		if err == errHookPanicked {
			a.drop(c)
			return
		}
		reason := err.Error()
		if re, ok := err.(tls.RecordHeaderError); ok && re.Conn != nil && looksLikeHTTP(re.RecordHeader) {
			io.WriteString(re.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
			reason = "client sent an HTTP request to an HTTPS server"
		}
		a.engine.logf("http: TLS handshake error from %s: %v", c.nc.RemoteAddr(), reason) // net/http's text, for which programs look
		a.drop(c)
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

// drop closes a connection that is not served.
func (a *acceptor) drop(c *newcomer) {
	a.engine.forget(c.nc)
	c.nc.Close()
	a.engine.report(c.conn, http.StateClosed)
}

// other passes a connection of HTTP/1.1 on to net/http: conn, which reads again what has been read of c.
func (a *acceptor) other(c *newcomer, conn net.Conn) {
	a.engine.forget(c.nc)
	if !a.pass(accepted{conn: conn, ctx: c.ctx}) {
		a.drop(c)
	}
}

// mine serves a connection of HTTP/2.
func (a *acceptor) mine(c *newcomer, conn net.Conn, p preface) {
	sc := a.engine.start(conn, serverHandler{a.engine.srv}, c.ctx, p, func() { a.engine.report(c.conn, http.StateClosed) })
	a.engine.forget(c.nc)
	if a.isClosed() {
		sc.h2.Shutdown("")
	}
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

// Accept returns what net/http is to serve: a connection of HTTP/1.1, and, when
// net/http shuts down with connections of HTTP/2 left, a hold. The first call begins
// accepting: by then Shutdown knows of the listener, and waits for its connections.
func (a *acceptor) Accept() (net.Conn, error) {
	a.begin.Do(func() { go a.accept() })
	if a.passed != nil { // net/http has called its hooks for it
		a.engine.passed.Delete(a.passed)
		a.passed = nil
	}
	select {
	case o := <-a.others:
		if o.err == nil {
			a.engine.passed.Store(o.conn, o.ctx)
			a.passed = o.conn
			return o.conn, nil
		}
		if !a.isClosed() {
			return nil, o.err
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

// Close ends accepting.
func (a *acceptor) Close() error {
	var err error
	a.once.Do(func() {
		close(a.closed)
		err = a.Listener.Close()
	})
	return err
}
