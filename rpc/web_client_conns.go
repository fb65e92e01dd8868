package rpc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarn-go/tarn/h2http"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"
)

// webConns is the http.RoundTripper of a client of another protocol than gRPC: HTTP/2 by package h2http and
// HTTP/1.1 by net/http, over connections made by the client's options. The first connection shows which
// version the server selects.
type webConns struct {
	web   *webClient
	addr  string
	level credentials.SecurityLevel // that connections must have
	two   *h2http.Transport
	one   *http.Transport
	first chan struct{} // of one element: held while the version is being determined

	version atomic.Int32                         // of HTTP; 0: not known
	last    atomic.Pointer[credentials.AuthInfo] // of the last connection

	mu    sync.Mutex
	spare *webConn // made to determine the version, and not used yet
	open  map[*webConn]struct{}
}

// webConn is an open connection.
type webConn struct {
	net.Conn
	of      *webConns
	version int32                // of HTTP
	auth    credentials.AuthInfo // nil without a handshake
}

// Close closes the connection.
func (c *webConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

const (
	http1 = 1
	http2 = 2
)

// maxIdleWeb is how many idle connections of HTTP/1.1 are kept.
const maxIdleWeb = 100

func newWebConns(w *webClient, addr string, level credentials.SecurityLevel) *webConns {
	o := &w.cc.opts
	c := &webConns{web: w, addr: addr, level: level, first: make(chan struct{}, 1), open: map[*webConn]struct{}{}}
	conf := &http.HTTP2Config{MaxReceiveBufferPerStream: o.window, MaxReceiveBufferPerConnection: o.connWindow}
	if o.keepalive.Time > 0 {
		conf.SendPingTimeout = max(o.keepalive.Time, minKeepalive)
		conf.PingTimeout = o.keepalive.Timeout
	}
	c.two = &h2http.Transport{
		DialTLSContext: c.dial(http2), IdleConnTimeout: o.idleTimeout, MaxResponseHeaderBytes: int64(o.maxHeaderList),
		DisableCompression: true, HTTP2: conf, Config: h2http.Config{Pool: o.pool},
	}
	c.one = &http.Transport{
		DialContext: c.dial(http1), DialTLSContext: c.dial(http1), IdleConnTimeout: o.idleTimeout,
		MaxResponseHeaderBytes: int64(o.maxHeaderList), DisableCompression: true, MaxIdleConnsPerHost: maxIdleWeb,
	}
	if w.cc.scheme == "http" {
		c.version.Store(http1)
	}
	return c
}

// errVersion is returned when a server selects another version of HTTP than before.
var errVersion = errors.New("rpc: the server selected another version of HTTP than before")

// dialError marks a failure to connect: the server has received nothing of the call.
type dialError struct{ err error }

func (e *dialError) Error() string { return "transport: Error while dialing: " + e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// RoundTrip implements http.RoundTripper.
func (c *webConns) RoundTrip(r *http.Request) (*http.Response, error) {
	v, made, err := c.find(r.Context())
	if err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, err
	}
	defer c.discard(made)
	if v == http2 {
		return c.two.RoundTrip(r)
	}
	return c.one.RoundTrip(r)
}

// find returns the version of HTTP that the server selects, and the connection that it has made for that, which the next dial of that
// version takes. The caller discards it when it has made its request.
func (c *webConns) find(ctx context.Context) (version int32, made *webConn, err error) {
	if v := c.version.Load(); v != 0 {
		return v, nil, nil
	}
	select {
	case c.first <- struct{}{}:
	case <-ctx.Done():
		return 0, nil, ctx.Err()
	}
	defer func() { <-c.first }()
	if v := c.version.Load(); v != 0 {
		return v, nil, nil
	}
	wc, err := c.connect(ctx)
	if err != nil {
		return 0, nil, err
	}
	c.mu.Lock()
	c.spare = wc
	c.mu.Unlock()
	c.version.Store(wc.version)
	return wc.version, wc, nil
}

// discard closes a connection of find unless a dial has taken it: the server may end it at any time, and a call that is the first on its
// connection is not repeated.
func (c *webConns) discard(made *webConn) {
	if made != nil && c.take(func(spare *webConn) bool { return spare == made }) != nil {
		made.Close()
	}
}

// dial returns the dial function of the transport for one version of HTTP.
func (c *webConns) dial(want int32) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		// A call that has asked for the version before it changed may dial for the other.
		if wc := c.take(func(spare *webConn) bool { return spare.version == want }); wc != nil {
			return wc, nil
		}
		wc, err := c.connect(ctx)
		if err != nil {
			return nil, err
		}
		if wc.version != want {
			c.version.Store(wc.version)
			wc.Close()
			return nil, &dialError{errVersion}
		}
		return wc, nil
	}
}

// take returns the spare connection, the caller's from now on, if there is one and it is wanted.
func (c *webConns) take(wanted func(*webConn) bool) *webConn {
	c.mu.Lock()
	defer c.mu.Unlock()
	spare := c.spare
	if spare == nil || !wanted(spare) {
		return nil
	}
	c.spare = nil
	return spare
}

// connect makes a connection.
func (c *webConns) connect(ctx context.Context) (*webConn, error) {
	wc, err := c.secured(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.open[wc] = struct{}{}
	c.mu.Unlock()
	if c.web.closed.Err() != nil { // close may have been called before
		wc.Close()
	}
	return wc, nil
}

// secured makes a connection, with a TLS handshake if configured.
func (c *webConns) secured(ctx context.Context) (*webConn, error) {
	cc := c.web.cc
	ctx, cancel := context.WithTimeout(ctx, cc.opts.minConnectTimeout())
	defer cancel()
	return aside(ctx.Done(), func() (*webConn, error) { return c.made(ctx) }, func(wc *webConn) { wc.Conn.Close() }, func() error { return &dialError{ctx.Err()} })
}

// made makes a connection. The dialer and the credentials are the application's.
func (c *webConns) made(ctx context.Context) (*webConn, error) {
	cc := c.web.cc
	nc, err := cc.dial(ctx, &resolver.Address{Addr: c.addr})
	if err != nil {
		return nil, &dialError{err}
	}
	if cc.scheme == "http" {
		return &webConn{Conn: nc, of: c, version: http1}, nil
	}
	secured := false
	defer func() {
		if !secured { // an error, or the credentials have ended the goroutine
			nc.Close()
		}
	}()
	deadline, _ := ctx.Deadline()
	// A connection without deadlines is bounded by the credentials' use of ctx.
	_ = nc.SetDeadline(deadline)
	sc, info, err := cc.opts.creds.ClientHandshake(ctx, cc.authority, nc)
	if err != nil {
		return nil, &dialError{fmt.Errorf("authentication handshake failed: %w", err)}
	}
	if err := checkLevel(info, cc.opts.perRPC); err != nil {
		sc.Close()
		return nil, &dialError{err}
	}
	if c.level > credentials.NoSecurity && credentials.CheckSecurityLevel(info, c.level) != nil {
		sc.Close()
		return nil, status.Error(codes.Unauthenticated, insecureCredentials)
	}
	_ = sc.SetDeadline(time.Time{})
	c.last.Store(&info)
	version := int32(http2)
	if t, ok := info.(credentials.TLSInfo); ok && t.State.NegotiatedProtocol != "h2" {
		version = http1
	}
	secured = true
	return &webConn{Conn: sc, of: c, version: version, auth: info}, nil
}

// authInfo is the AuthInfo for per-RPC credentials, which are asked before there is a connection for the request: the last
// connection's, or what the target's scheme promises.
func (c *webConns) authInfo() credentials.AuthInfo {
	if a := c.last.Load(); a != nil {
		return *a
	}
	return c.web.promised()
}

// close closes all connections. No call is running any more, but cancelled streams may not have ended yet.
func (c *webConns) close() {
	c.two.CloseIdleConnections()
	c.one.CloseIdleConnections()
	c.mu.Lock()
	open := slices.Collect(maps.Keys(c.open))
	c.mu.Unlock()
	for _, nc := range open {
		nc.Close()
	}
}
