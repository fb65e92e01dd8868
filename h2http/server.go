package h2http

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/internal/prefixed"
)

// ConfigureServer makes srv serve HTTP/2 by this package. It must be called before srv
// serves, and after its fields are set: it adds to srv.TLSNextProto, srv.TLSConfig and
// the functions of RegisterOnShutdown, and wraps srv.ConnState, srv.ConnContext and srv.BaseContext. A
// nil conf is the zero Config.
//
// As with net/http's own HTTP/2, srv.Protocols says whether TLS connections offer
// HTTP/2 (by default they do) and whether unencrypted HTTP/2 is served (by default it is
// not; see also Serve).
//
// Errors: a setting of srv.HTTP2 that cannot be honoured, a list of cipher suites
// without those that HTTP/2 requires, or a server with an implementation of HTTP/2 in
// srv.TLSNextProto, such as one that is configured already.
func ConfigureServer(srv *http.Server, conf *Config) error {
	_, err := NewServer(srv, conf)
	return err
}

// Serve accepts connections on l and serves srv.Handler on them: it is Serve of the [Server] of srv, which it makes with the
// zero Config if ConfigureServer has not been called. To serve several listeners, or to shut down with a context, call
// NewServer and its methods.
//
// srv.Shutdown lets requests that have begun end, and returns when Serve's connections have ended; its context counts for
// those of HTTP/1.1 only. After ten seconds srv.ErrorLog has a line about those of HTTP/2. srv.Close ends Serve's connections of HTTP/2 a second after it has closed l, if they have
// requests until then; it is not noticed after srv.Shutdown. Serve returns when its connections of HTTP/2 have ended.
func Serve(l net.Listener, srv *http.Server) error {
	s, base, err := serverOf(l, srv)
	if err != nil {
		l.Close()
		return err
	}
	return s.serve(l, base)
}

// ServeTLS is Serve over TLS: ServeTLS of the [Server] of srv.
func ServeTLS(l net.Listener, srv *http.Server, certFile, keyFile string) error {
	s, base, err := serverOf(l, srv)
	if err != nil {
		l.Close()
		return err
	}
	return s.serveTLS(l, base, certFile, keyFile)
}

// Server serves an http.Server on listeners whose connections it accepts itself, so that one of HTTP/2 has no goroutine and
// no buffer of net/http. Connections of HTTP/1.1 are served by net/http. It is safe for concurrent use.
type Server struct {
	http   *http.Server
	engine *engine
	conns  *connections
	first  atomic.Pointer[string] // the address of the first listener
	passed sync.Map               // from net.Conn to context.Context: what Serve passes to net/http, until that has called its hooks

	ending   atomic.Uint32 // an ender
	released chan struct{} // closed: net/http waits for Serve's connections no longer
	release  func()        // closes it
	notice   sync.Once     // see stopped
}

// ender says what has begun the end of a Server.
type ender = uint32

const (
	notEnding  ender = iota
	byItself         // Shutdown or Close
	byShutdown       // srv.Shutdown
)

// NewServer configures srv as ConfigureServer does and returns its Server. srv's settings count. srv may also serve
// listeners itself, and Shutdown and Close end their connections, too.
func NewServer(srv *http.Server, conf *Config) (*Server, error) {
	if srv.TLSNextProto[protoTLS] != nil || srv.TLSNextProto[protoUnencrypted] != nil {
		return nil, errors.New("h2http: the http.Server has HTTP/2 in its TLSNextProto: it is configured already")
	}
	e, err := configured(srv, conf.orDefault())
	if err != nil {
		return nil, err
	}
	s := &Server{http: srv, engine: e, conns: newConnections(e.workers), released: make(chan struct{})}
	s.release = sync.OnceFunc(func() { close(s.released) })
	s.install()
	return s, nil
}

// ListenAndServe is Serve on the TCP address srv.Addr; empty: ":http".
func (s *Server) ListenAndServe() error {
	l, err := s.listen(":http")
	if err != nil {
		return err
	}
	return s.Serve(l)
}

// ListenAndServeTLS is ServeTLS on the TCP address srv.Addr; empty: ":https".
func (s *Server) ListenAndServeTLS(certFile, keyFile string) error {
	l, err := s.listen(":https")
	if err != nil {
		return err
	}
	return s.ServeTLS(l, certFile, keyFile)
}

func (s *Server) listen(addr string) (net.Listener, error) {
	if s.ending.Load() != notEnding {
		return nil, http.ErrServerClosed
	}
	if s.http.Addr != "" {
		addr = s.http.Addr
	}
	return net.Listen("tcp", addr)
}

// Serve accepts connections on l, which it closes, and serves the http.Server's Handler on them: unencrypted HTTP/2
// and HTTP/1.1, depending on a connection's first bytes, unless Protocols says otherwise. Of a *tls.Conn, which a listener of
// tls.NewListener accepts, ALPN selects the protocol.
//
// The error is never nil. After Shutdown or Close it is http.ErrServerClosed, and comes when no connection is left, or the
// context of Shutdown has ended.
func (s *Server) Serve(l net.Listener) error { return s.serve(l, baseContext(s.http, l)) }

// ServeTLS is Serve over TLS, where ALPN selects HTTP/2 or HTTP/1.1. The files hold a
// certificate and its key, which take the place of those of the http.Server's TLSConfig; they may be
// empty if that has a certificate.
func (s *Server) ServeTLS(l net.Listener, certFile, keyFile string) error {
	return s.serveTLS(l, baseContext(s.http, l), certFile, keyFile)
}

func (s *Server) serve(l net.Listener, base context.Context) error {
	a := newAcceptor(l, s, base)
	p := s.http.Protocols
	a.http2 = p == nil || p.UnencryptedHTTP2()
	a.http1 = p == nil || p.HTTP1()
	return a.serve()
}

func (s *Server) serveTLS(l net.Listener, base context.Context, certFile, keyFile string) error {
	config := s.http.TLSConfig.Clone()
	http1, http2 := true, true
	if p := s.http.Protocols; p != nil {
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
	a := newAcceptor(l, s, base)
	a.tls = config
	return a.serve()
}

// Shutdown ends the server gracefully, as http.Server.Shutdown does: it closes the listeners, announces the end to the
// peers, lets the requests that have begun end, and returns when no connection is left. If ctx ends before that, it returns
// its error, and the connections go on: see Close. It calls the http.Server's Shutdown.
func (s *Server) Shutdown(ctx context.Context) error {
	s.ending.Store(byItself)
	defer context.AfterFunc(ctx, s.release)() // net/http waits for Serve whatever ctx says
	err := s.http.Shutdown(ctx)
	s.conns.drain()
	select {
	case <-s.conns.ended:
		return err
	default:
	}
	select {
	case <-s.conns.ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close closes the listeners and every connection at once. Contexts of requests end; it does not wait for their handlers. The
// error is that of closing the listeners. It calls the http.Server's Close.
func (s *Server) Close() error {
	s.ending.Store(byItself)
	s.release()
	err := s.http.Close()
	s.conns.close()
	return err
}

// stopped is called when net/http has closed a listener of Serve's: in Shutdown or in Close, which it does not say. Either
// waits until Serve's Accept returns. Shutdown calls the functions of RegisterOnShutdown before that, on their own
// goroutines; when install's has not run after noticeClose, it was Close.
func (s *Server) stopped() {
	s.conns.drain()
	s.notice.Do(func() {
		s.http.SetKeepAlivesEnabled(false) // closes what is idle of HTTP/1.1, which Shutdown does after it has waited
		time.AfterFunc(noticeClose, s.closeUnlessShutdown)
	})
}

const (
	// noticeClose is how long a goroutine that has been started may take until it runs.
	noticeClose = time.Second
	// noticeWait is after how long it is logged that srv.Shutdown still waits.
	noticeWait = 10 * time.Second
)

func (s *Server) closeUnlessShutdown() {
	switch s.ending.Load() {
	case notEnding:
		s.conns.close()
		s.release()
	case byShutdown:
		time.AfterFunc(noticeWait-noticeClose, s.logWait)
	}
}

// logWait logs that srv.Shutdown waits for requests, unless none is left or Shutdown or Close has been called, too: a program that
// counts on srv.Shutdown's context finds here why that does not end it.
func (s *Server) logWait() {
	if n := s.conns.count(); n > 0 && s.ending.Load() == byShutdown {
		s.engine.logf("h2http: http.Server.Shutdown has waited %v for requests (connections of HTTP/2: %d), and goes on whatever its context says; h2http.Server.Shutdown returns when its context ends", noticeWait, n)
	}
}

// install puts s where net/http finds it.
func (s *Server) install() {
	srv := s.http
	if srv.TLSConfig == nil {
		srv.TLSConfig = new(tls.Config)
	}
	if p := srv.Protocols; p == nil || p.HTTP2() {
		// For listeners made of TLSConfig; net/http's ServeTLS and this package's ServeTLS add it themselves.
		for _, proto := range []string{protoTLS, "http/1.1"} {
			if !slices.Contains(srv.TLSConfig.NextProtos, proto) && (proto == protoTLS || p == nil || p.HTTP1()) {
				srv.TLSConfig.NextProtos = append(srv.TLSConfig.NextProtos, proto)
			}
		}
	}
	if srv.TLSNextProto == nil {
		srv.TLSNextProto = make(map[string]func(*http.Server, *tls.Conn, http.Handler))
	}
	srv.TLSNextProto[protoTLS] = func(_ *http.Server, c *tls.Conn, h http.Handler) { s.serveConn(c, h, prefaceComing) }
	srv.TLSNextProto[protoUnencrypted] = func(_ *http.Server, c *tls.Conn, h http.Handler) { s.serveUnencrypted(c, h) }
	srv.RegisterOnShutdown(func() {
		s.ending.CompareAndSwap(notEnding, byShutdown)
		s.conns.drain()
	})
	s.installHooks()
}

// serverKey is the key of the Server in the contexts that its http.Server's BaseContext returns.
type serverKey struct{}

// serverOf returns the Server of srv, and the base context of its connections on l.
func serverOf(l net.Listener, srv *http.Server) (*Server, context.Context, error) {
	base := baseContext(srv, l)
	if s, ok := base.Value(serverKey{}).(*Server); ok && s.http == srv {
		return s, base, nil
	}
	s, err := NewServer(srv, nil)
	return s, base, err
}

// baseContext returns what net/http takes as the parent of the contexts of connections on l.
func baseContext(srv *http.Server, l net.Listener) context.Context {
	if srv.BaseContext == nil {
		return context.Background()
	}
	ctx := srv.BaseContext(l)
	if ctx == nil {
		panic("BaseContext returned a nil context")
	}
	return ctx
}

// installHooks wraps the hooks for connections. Those that are set are called once for a connection that Serve has passed
// to net/http.
func (s *Server) installHooks() {
	srv := s.http
	base := srv.BaseContext
	srv.BaseContext = func(l net.Listener) context.Context {
		if a, ok := l.(*acceptor); ok {
			return a.base
		}
		ctx := context.Background()
		if base != nil {
			if ctx = base(l); ctx == nil {
				return nil // net/http panics
			}
		}
		return context.WithValue(ctx, serverKey{}, s)
	}
	if f := srv.ConnContext; f != nil {
		srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
			if made, ok := s.passed.Load(c); ok {
				return made.(context.Context)
			}
			return f(ctx, c)
		}
	}
	f, d := srv.ConnState, prefaceLimit(srv)
	if f != nil || d > 0 {
		srv.ConnState = func(c net.Conn, state http.ConnState) {
			if state == http.StateNew && d > 0 {
				c.SetReadDeadline(time.Now().Add(d))
			}
			if _, again := s.passed.Load(c); f == nil || again && state == http.StateNew {
				return
			}
			f(prefixed.Under(c), state)
		}
	}
}

// serveConn serves a connection that net/http has accepted, until it ends.
func (s *Server) serveConn(nc net.Conn, h http.Handler, p preface) {
	done := make(chan struct{})
	s.begin(nc, h, connOf(h), p, func() { close(done) })
	<-done
}

// serveUnencrypted is serveConn for what net/http has recognised by its preface, which
// is then read already.
func (s *Server) serveUnencrypted(c *tls.Conn, h http.Handler) {
	u, ok := c.NetConn().(interface{ UnencryptedNetConn() net.Conn })
	if !ok {
		s.engine.logf("h2http: a TLS connection where an unencrypted one was expected")
		return
	}
	nc := u.UnencryptedNetConn()
	nc.SetReadDeadline(time.Time{}) // prefaceLimit's
	s.serveConn(nc, h, prefaceRead)
}

// connOf returns the context of a connection of net/http's, which passes it on by an
// unadvertised method of the handler.
func connOf(h http.Handler) context.Context {
	if b, ok := h.(interface{ BaseContext() context.Context }); ok {
		return b.BaseContext()
	}
	return context.Background()
}

// begin serves nc, which it takes over, and does not wait for its end. It calls ended when nc is closed.
func (s *Server) begin(nc net.Conn, h http.Handler, ctx context.Context, p preface, ended func()) {
	c := s.engine.make(nc, h, ctx, p)
	s.conns.add(c)
	c.h2.Start(func(err error) {
		c.greeting.Stop()
		s.engine.countEnd(err)
		s.conns.remove(c)
		ended()
	})
	if c.badTLS {
		c.h2.Abort(h2.InadequateSecurity, "TLS version or cipher suite prohibited")
		return
	}
	s.conns.begun(c)
}
