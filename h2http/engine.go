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
	"strings"
	"sync/atomic"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/internal/workers"
)

// Names under which net/http looks for an HTTP/2 implementation in TLSNextProto.
const (
	protoTLS         = "h2"
	protoUnencrypted = "unencrypted_http2"
)

// engine is the HTTP/2 of one http.Server: its settings, and what its connections share.
type engine struct {
	srv     *http.Server
	maker   *h2.Maker // nil: it makes no connections
	pool    *tarn.Pool
	allTLS  bool // prohibited cipher suites are permitted
	workers *workers.Pool[*exchange]
	now     atomic.Pointer[dateText]

	requests requests
}

// newEngine returns an engine that makes no connections.
func newEngine(srv *http.Server, pool *tarn.Pool) *engine {
	if pool == nil {
		pool = tarn.Shared()
	}
	return &engine{srv: srv, pool: pool, workers: workers.New[*exchange](maxIdleWorkers)}
}

// configured returns an engine with the settings of srv and c.
func configured(srv *http.Server, c Config) (*engine, error) {
	headerBytes := int64(srv.MaxHeaderBytes)
	if headerBytes <= 0 {
		headerBytes = http.DefaultMaxHeaderBytes
	}
	cfg, err := c.h2Config(srv.HTTP2, headerBytes)
	if err != nil {
		return nil, err
	}
	cfg.LongHeaders = h2.DeliverLong
	if cfg.Unread == 0 { // handlers read at the same time
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
	if cfg.IdleTimeout = srv.IdleTimeout; cfg.IdleTimeout == 0 {
		cfg.IdleTimeout = srv.ReadTimeout
	}
	maker, err := h2.Servers(cfg)
	if err != nil {
		return nil, fmt.Errorf("h2http: %w", err)
	}
	e := newEngine(srv, c.Pool)
	e.maker = maker
	e.allTLS = srv.HTTP2 != nil && srv.HTTP2.PermitProhibitedCipherSuites
	return e, nil
}

// report calls the server's ConnState.
func (e *engine) report(c net.Conn, s http.ConnState) {
	if f := e.srv.ConnState; f != nil {
		f(c, s)
	}
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

// preface says where a client's preface is.
type preface uint8

const (
	prefaceComing preface = iota
	prefaceRead           // off the connection already
)

// make returns the server's side of nc, which it takes over. It has not begun yet.
func (e *engine) make(nc net.Conn, h http.Handler, ctx context.Context, p preface) *serverConn {
	c := &serverConn{engine: e, nc: nc, handler: h, ctx: ctx}
	if t, ok := nc.(interface{ ConnectionState() tls.ConnectionState }); ok {
		state := t.ConnectionState()
		c.tls = &state
		c.badTLS = !e.goodTLS(&state)
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
	c.greeting = time.AfterFunc(prefaceTimeout, func() { c.h2.Close() })
	return c
}

// countEnd counts the end of a connection if the client is the cause.
func (e *engine) countEnd(err error) {
	var ce *h2.ConnError
	if errors.As(err, &ce) && ce.Fault == h2.Peer {
		name := "conn_" + codeName(ce.Code)
		if ce.Code == h2.NoError {
			name = lostPing
		}
		countError(e.srv.HTTP2, name)
	}
}

// setTimers sets an exchange's timers for the server's ReadTimeout and
// WriteTimeout.
func (e *engine) setTimers(x *exchange) {
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
func (e *engine) date(now time.Time) string {
	d := e.now.Load()
	if d == nil || d.second != now.Unix() {
		d = &dateText{now.Unix(), now.UTC().Format(http.TimeFormat)}
		e.now.Store(d)
	}
	return d.text
}
