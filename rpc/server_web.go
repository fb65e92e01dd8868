package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/rpc/internal/header"
	"google.golang.org/grpc/credentials"
)

// webPort serves the other protocols on the port on which Serve serves gRPC: HTTP/2 streams whose content
// type is not gRPC's, and HTTP/1.1 connections, are passed to ServeHTTP.
type webPort struct {
	streams *h2http.Streams
	http1   http.Server
	others  handed
}

func newWebPort(s *Server) *webPort {
	w := &webPort{others: handed{conns: make(chan net.Conn), closed: make(chan struct{})}}
	w.http1.Handler, w.http1.ConnContext = s, contextOf
	w.http1.ReadHeaderTimeout = s.opts.connTimeout
	w.http1.MaxHeaderBytes = s.opts.maxHeaderList
	w.http1.IdleTimeout = s.opts.keepalive.MaxConnectionIdle
	w.streams = h2http.NewStreams(&http.Server{Handler: s}, s.opts.pool)
	return w
}

// serveHTTP1 passes a connection to net/http, which closes it. With statistics handlers it returns when the connection has ended.
func (s *Server) serveHTTP1(nc *accepted, in *incoming) {
	w := s.web
	w.others.once.Do(func() { go w.http1.Serve(&w.others) })
	if len(s.opts.stats) == 0 {
		s.forget(nc)
		w.hand(in.Conn)
		return
	}
	s.mu.Lock()
	delete(s.raw, nc)
	s.mu.Unlock()
	t := &tagged{Conn: in.Conn, ctx: in.ctx, closed: make(chan struct{})}
	if c, ok := in.Conn.(*tlsConn); ok {
		w.hand(taggedTLS{t, c})
	} else {
		w.hand(t)
	}
	<-t.closed
	s.untag(t.ctx)
}

// hand passes nc to net/http, or closes it if the server is stopping.
func (w *webPort) hand(nc net.Conn) {
	if !w.others.hand(nc) {
		nc.Close()
	}
}

// tagged is an HTTP/1.1 connection of a server with statistics handlers.
type tagged struct {
	net.Conn
	ctx    context.Context // of the handlers' TagConn, parent of the requests' contexts
	once   sync.Once
	closed chan struct{}
}

// Close closes the connection, and closed the first time.
func (c *tagged) Close() error {
	defer c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// CloseWrite closes the writing half, which net/http does before it closes a connection of which it has not read everything.
func (c *tagged) CloseWrite() error {
	if h, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return errors.ErrUnsupported
}

// taggedTLS is one over TLS, which net/http recognises by its ConnectionState.
type taggedTLS struct {
	*tagged
	tls *tlsConn
}

// ConnectionState is called by net/http.
func (c taggedTLS) ConnectionState() tls.ConnectionState { return c.tls.state }

// contextOf is the parent of the contexts of a connection's requests.
func contextOf(ctx context.Context, nc net.Conn) context.Context {
	switch c := nc.(type) {
	case *tagged:
		return c.ctx
	case taggedTLS:
		return c.ctx
	}
	return ctx
}

// handed is a listener whose Accept returns connections that have been accepted already.
type handed struct {
	conns  chan net.Conn
	once   sync.Once // starts net/http
	end    sync.Once
	closed chan struct{}
}

// hand passes nc on; false: net/http has stopped accepting.
func (l *handed) hand(nc net.Conn) bool {
	select {
	case l.conns <- nc:
		return true
	case <-l.closed:
		return false
	}
}

// Accept returns a connection passed to hand.
func (l *handed) Accept() (net.Conn, error) {
	select {
	case nc := <-l.conns:
		return nc, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (l *handed) Close() error {
	l.end.Do(func() { close(l.closed) })
	return nil
}

// Addr is empty: the connections have their own addresses.
func (l *handed) Addr() net.Addr { return webAddr("") }

// stop closes all HTTP/1.1 connections.
func (w *webPort) stop() {
	w.others.Close()
	w.http1.Close()
}

// drain closes the idle ones, and waits for the others.
func (w *webPort) drain() {
	w.others.Close()
	// Its context has no deadline, so Shutdown can only fail because of the listener.
	_ = w.http1.Shutdown(context.Background())
}

// speaksGRPC reports whether a request is a gRPC request.
func speaksGRPC(h *h2.Header) bool {
	if h.Memo != nil {
		if _, ok := (*h.Memo).(*shape); ok {
			return true
		}
	}
	ct, _ := h.Get("content-type")
	_, ok := header.Subtype(ct)
	return ok
}

// other is the handler of the connection's streams that are not gRPC's.
func (c *serverConn) other() h2.Handler {
	if c.web == nil {
		var state *tls.ConnectionState
		if info, ok := c.peer.AuthInfo.(credentials.TLSInfo); ok {
			state = &info.State
		}
		c.web = c.srv.web.streams.Of(context.WithValue(c.ctx, connKey{}, c), c.h2c, c.nc, state)
	}
	return c.web
}
