package h2http

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"math"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/internal/prefixed"
	"github.com/tarn-go/tarn/internal/workers"
)

// Names under which net/http looks for an HTTP/2 implementation in TLSNextProto.
const (
	protoTLS         = "h2"
	protoUnencrypted = "unencrypted_http2"
	// protoEngine is not a protocol: under this name Serve finds what ConfigureServer has installed.
	protoEngine = "tarn-go/h2http"
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
// without those that HTTP/2 requires, or a server that is configured already.
func ConfigureServer(srv *http.Server, conf *Config) error {
	_, err := configure(srv, conf)
	return err
}

// engine is what serves the HTTP/2 connections of one http.Server.
type engine struct {
	srv     *http.Server
	maker   *h2.Maker
	pool    *tarn.Pool
	idle    time.Duration // 0: connections may be idle for ever
	allTLS  bool          // prohibited cipher suites are permitted
	workers *workers.Pool[*exchange]
	now     atomic.Pointer[dateText]
	passed  sync.Map // from net.Conn to context.Context: what Serve passes to net/http, until that has called its hooks

	mu    sync.Mutex
	conns map[*serverConn]struct{}
	asked map[net.Conn]time.Time // Serve's connections whose protocol is not known yet, and when they were accepted
	going bool                   // shutting down
	empty chan struct{}          // closed when going and no connection is left
	gone  bool                   // empty is closed
}

// newEngine returns an engine without a maker: one that makes no connections.
func newEngine(srv *http.Server, pool *tarn.Pool) *engine {
	if pool == nil {
		pool = tarn.Shared()
	}
	return &engine{
		srv: srv, pool: pool, workers: workers.New[*exchange](maxIdleWorkers),
		conns: make(map[*serverConn]struct{}), asked: make(map[net.Conn]time.Time), empty: make(chan struct{}),
	}
}

func configure(srv *http.Server, conf *Config) (*engine, error) {
	if _, again := srv.TLSNextProto[protoEngine]; again {
		return nil, errors.New("h2http: the http.Server is configured already")
	}
	c := conf.orDefault()
	headerBytes := int64(srv.MaxHeaderBytes)
	if headerBytes <= 0 {
		headerBytes = http.DefaultMaxHeaderBytes
	}
	cfg, err := c.h2Config(srv.HTTP2, headerBytes)
	if err != nil {
		return nil, err
	}
	cfg.LongHeaders = h2.DeliverLong
	if cfg.Unread == 0 { // a program may read its responses one after the other; handlers read at the same time
		cfg.Unread = mostUnread
	}
	if n := maxHeaderValues(srv); n > 0 {
		cfg.Limits.Fields = n
	} else if cfg.Limits.Fields == 0 {
		cfg.Limits.Fields = headerValues
	}
	cfg.HeaderTimeout = max(0, headerTimeout(srv))
	cfg.MaxStreams = defaultMaxStreams
	if srv.HTTP2 != nil && srv.HTTP2.MaxConcurrentStreams > 0 {
		cfg.MaxStreams = min(srv.HTTP2.MaxConcurrentStreams, math.MaxInt32)
	}
	if err := checkSuites(srv.TLSConfig); err != nil {
		return nil, err
	}
	maker, err := h2.Servers(cfg)
	if err != nil {
		return nil, fmt.Errorf("h2http: %w", err)
	}
	e := newEngine(srv, c.Pool)
	e.maker = maker
	if e.idle = srv.IdleTimeout; e.idle == 0 {
		e.idle = srv.ReadTimeout
	}
	e.allTLS = srv.HTTP2 != nil && srv.HTTP2.PermitProhibitedCipherSuites
	e.install()
	return e, nil
}

// install puts e where net/http finds it.
func (e *engine) install() {
	srv := e.srv
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
	srv.TLSNextProto[protoTLS] = func(_ *http.Server, c *tls.Conn, h http.Handler) { e.serveTLS(c, h) }
	srv.TLSNextProto[protoUnencrypted] = func(_ *http.Server, c *tls.Conn, h http.Handler) { e.serveUnencrypted(c, h) }
	srv.TLSNextProto[protoEngine] = func(_ *http.Server, _ *tls.Conn, h http.Handler) {
		if q, ok := h.(*engineQuery); ok {
			q.engine = e
		}
	}
	srv.RegisterOnShutdown(e.shutdown)
	e.installHooks()
}

// installHooks wraps the hooks for connections that are set. They are not called for a hold, and once for a connection that Serve has
// passed to net/http.
func (e *engine) installHooks() {
	srv := e.srv
	if f := srv.BaseContext; f != nil {
		srv.BaseContext = func(l net.Listener) context.Context {
			if a, ok := l.(*acceptor); ok {
				return a.base
			}
			return f(l)
		}
	}
	if f := srv.ConnContext; f != nil {
		srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
			if isHold(c) {
				return ctx
			}
			if made, ok := e.passed.Load(c); ok {
				return made.(context.Context)
			}
			return f(ctx, c)
		}
	}
	f, d := srv.ConnState, prefaceLimit(srv)
	if f != nil || d > 0 {
		srv.ConnState = func(c net.Conn, s http.ConnState) {
			if s == http.StateNew && d > 0 {
				c.SetReadDeadline(time.Now().Add(d))
			}
			if _, again := e.passed.Load(c); f == nil || isHold(c) || again && s == http.StateNew {
				return
			}
			f(prefixed.Under(c), s)
		}
	}
}

// report calls the server's ConnState.
func (e *engine) report(c net.Conn, s http.ConnState) {
	if f := e.srv.ConnState; f != nil {
		f(c, s)
	}
}

// engineQuery asks a configured server for its engine.
type engineQuery struct{ engine *engine }

func (*engineQuery) ServeHTTP(http.ResponseWriter, *http.Request) {}

// engineOf returns the engine that srv is configured with; nil: none.
func engineOf(srv *http.Server) *engine {
	ask, ok := srv.TLSNextProto[protoEngine]
	if !ok {
		return nil
	}
	var q engineQuery
	ask(srv, nil, &q)
	return q.engine
}

// checkSuites returns an error if a list of the user's own has none of the cipher suites
// that HTTP/2 over TLS 1.2 requires (RFC 9113 section 9.2.2).
func checkSuites(c *tls.Config) error {
	if c == nil || c.CipherSuites == nil || c.MinVersion >= tls.VersionTLS13 {
		return nil
	}
	for _, suite := range c.CipherSuites {
		if suite == tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 || suite == tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 {
			return nil
		}
	}
	return errors.New("h2http: TLSConfig.CipherSuites lacks TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 and its ECDSA counterpart, of which HTTP/2 requires one")
}

// goodTLS reports whether HTTP/2 permits the connection's version and cipher suite (RFC
// 9113 section 9.2).
func (e *engine) goodTLS(s *tls.ConnectionState) bool {
	switch {
	case s.Version >= tls.VersionTLS13:
		return true
	case s.Version < tls.VersionTLS12:
		return false
	case e.allTLS:
		return true
	}
	switch s.CipherSuite {
	case tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256:
		return true
	}
	return false
}

// serveTLS serves a connection that net/http has accepted, until it ends.
func (e *engine) serveTLS(c *tls.Conn, h http.Handler) {
	if hold, ok := c.NetConn().(*hold); ok {
		hold.wait()
		return
	}
	done := make(chan struct{})
	e.start(c, h, connOf(h), prefaceComing, func() { close(done) })
	<-done
}

// serveUnencrypted is serveTLS for what net/http has recognised by its preface, which
// is then read already.
func (e *engine) serveUnencrypted(c *tls.Conn, h http.Handler) {
	u, ok := c.NetConn().(interface{ UnencryptedNetConn() net.Conn })
	if !ok {
		e.logf("h2http: a TLS connection where an unencrypted one was expected")
		return
	}
	nc := u.UnencryptedNetConn()
	nc.SetReadDeadline(time.Time{}) // prefaceLimit's
	done := make(chan struct{})
	e.start(nc, h, connOf(h), prefaceRead, func() { close(done) })
	<-done
}

// connOf returns the context of a connection of net/http's, which passes it on by an
// unadvertised method of the handler.
func connOf(h http.Handler) context.Context {
	if b, ok := h.(interface{ BaseContext() context.Context }); ok {
		return b.BaseContext()
	}
	return context.Background()
}

// preface says where a client's preface is.
type preface uint8

const (
	prefaceComing preface = iota
	prefaceRead           // off the connection already
)

// start serves nc, which it takes over, and returns. It calls ended when nc is closed.
func (e *engine) start(nc net.Conn, h http.Handler, ctx context.Context, p preface, ended func()) *serverConn {
	c := &serverConn{engine: e, nc: nc, handler: h, ctx: ctx}
	if t, ok := nc.(interface{ ConnectionState() tls.ConnectionState }); ok {
		state := t.ConnectionState()
		c.tls = &state
		c.refused = !e.goodTLS(&state)
	}
	if a := nc.RemoteAddr(); a != nil {
		c.remoteAddr = a.String()
	}
	c.h2 = e.maker.Make(withByteTimeout(nc, e.srv.HTTP2), c)
	if p == prefaceRead {
		c.h2.PrefaceRead()
	}
	if ignoresPriority(e.srv) {
		c.h2.IgnorePriority()
	}
	c.timer = time.AfterFunc(prefaceTimeout, c.onTimer)
	e.mu.Lock()
	if len(e.conns) == 0 {
		e.workers.Open()
	}
	e.conns[c] = struct{}{}
	going := e.going
	e.mu.Unlock()
	c.h2.Start(func(err error) {
		c.timer.Stop()
		e.ended(c, err)
		ended()
	})
	switch {
	case c.refused:
		c.h2.Abort(h2.InadequateSecurity, "TLS version or cipher suite prohibited")
	case going:
		c.h2.Shutdown("")
	}
	return c
}

// ended removes a connection from the engine.
func (e *engine) ended(c *serverConn, err error) {
	var ce *h2.ConnError
	if errors.As(err, &ce) && ce.Fault == h2.Peer {
		name := "conn_" + codeName(ce.Code)
		if ce.Code == h2.NoError {
			name = lostPing
		}
		countError(e.srv.HTTP2, name)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.conns, c)
	e.checkEmpty()
}

// shutdown is called by http.Server.Shutdown, on a goroutine of its own.
func (e *engine) shutdown() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.going {
		return
	}
	e.going = true
	for c := range e.conns {
		c.h2.Shutdown("")
	}
	for nc, since := range e.asked {
		time.AfterFunc(newConnTimeout-time.Since(since), func() { e.closeAsked(nc) })
	}
	e.checkEmpty()
}

// newConnTimeout is how long Shutdown waits for the first request of a connection, as in net/http.
const newConnTimeout = 5 * time.Second

// closeAsked closes nc if its protocol is still not known.
func (e *engine) closeAsked(nc net.Conn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.asked[nc]; ok {
		nc.Close()
	}
}

// forget removes a connection from those whose protocol is not known.
func (e *engine) forget(nc net.Conn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.asked, nc)
	e.checkEmpty()
}

// checkEmpty ends the workers when no connection is left, those of handlers that still run
// when these return, and wakes the goroutines that wait for that. e.mu is held.
func (e *engine) checkEmpty() {
	if len(e.conns) > 0 {
		return
	}
	e.workers.Close()
	if e.going && !e.gone && len(e.asked) == 0 {
		e.gone = true
		close(e.empty)
	}
}

// closeAll closes every connection at once.
func (e *engine) closeAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for c := range e.conns {
		c.h2.Close()
	}
	for nc := range e.asked {
		nc.Close()
	}
}

// busy reports whether there are connections.
func (e *engine) busy() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.conns) > 0 || len(e.asked) > 0
}

// startTimers starts an exchange's timers for the server's ReadTimeout and
// WriteTimeout.
func (e *engine) startTimers(x *exchange) {
	if d := e.srv.ReadTimeout; d > 0 {
		x.setDeadline(readDeadline, time.Now().Add(d), x.readTimeout)
	}
	if d := e.srv.WriteTimeout; d > 0 {
		x.setDeadline(writeDeadline, time.Now().Add(d), x.writeTimeout)
	}
}

func (e *engine) logf(format string, args ...any) {
	if e.srv.ErrorLog != nil {
		e.srv.ErrorLog.Printf(format, args...)
	} else {
		log.Printf(format, args...)
	}
}

// panicked logs a panic with v of the user's code that served a client, and the stack.
func (e *engine) panicked(client, v any) {
	if v == http.ErrAbortHandler {
		return
	}
	const size = 64 << 10
	buf := make([]byte, size)
	buf = buf[:runtime.Stack(buf, false)]
	e.logf("h2http: panic serving %v: %v\n%s", client, v, buf)
}

// superfluous logs a second WriteHeader, with its caller.
func (e *engine) superfluous(status int) {
	pc := make([]uintptr, 16)
	frames := runtime.CallersFrames(pc[:runtime.Callers(3, pc)])
	for {
		f, more := frames.Next()
		if !more || !strings.HasPrefix(f.Function, "net/http.") {
			e.logf("h2http: superfluous WriteHeader(%d) from %s (%s:%d)", status, f.Function, f.File, f.Line)
			return
		}
	}
}

// dateText is a Date header's value.
type dateText struct {
	second int64
	text   string
}

// date returns the value of a Date header.
func (e *engine) date() string {
	now := time.Now()
	d := e.now.Load()
	if d == nil || d.second != now.Unix() {
		d = &dateText{now.Unix(), now.UTC().Format(http.TimeFormat)}
		e.now.Store(d)
	}
	return d.text
}
