package h2http

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
)

// Streams serves streams of HTTP/2 connections that another server owns, a gRPC server for instance, so
// that one port speaks its protocol and that of an http.Handler. It is safe for concurrent use.
type Streams struct{ engine *engine }

// NewStreams returns Streams that call srv.Handler, with memory of pool (nil: tarn.Shared). Of srv's
// settings those of requests count: Handler, ReadTimeout, WriteTimeout, ErrorLog. Connections, their limits
// and their shutdown are the owner's.
func NewStreams(srv *http.Server, pool *tarn.Pool) *Streams {
	return &Streams{newEngine(srv, pool)}
}

// Of returns the handler of streams of conn, which runs over nc. The owner's h2.Handler passes to it
// every OnHeaders, OnData and OnReset of the streams that it does not serve itself, beginning with a
// stream's first; it leaves their Value alone. ctx is the parent of request contexts, state that of TLS,
// nil without it.
func (s *Streams) Of(ctx context.Context, conn *h2.Conn, nc net.Conn, state *tls.ConnectionState) h2.Handler {
	ctx = context.WithValue(ctx, http.ServerContextKey, s.engine.srv)
	c := &serverConn{engine: s.engine, h2: conn, nc: nc, handler: serverHandler{s.engine.srv}, tls: state,
		ctx: context.WithValue(ctx, http.LocalAddrContextKey, nc.LocalAddr())}
	if a := nc.RemoteAddr(); a != nil {
		c.remoteAddr = a.String()
	}
	return c
}

// Close ends the goroutines that wait for further streams, and those of handlers when these return. The owner
// calls it when its connections have ended.
func (s *Streams) Close() { s.engine.workers.Close() }

// Greeting says which protocol the first bytes of a connection begin.
type Greeting uint8

const (
	HTTP1     = Greeting(http1)     // anything but the preface of HTTP/2
	HTTP2     = Greeting(http2)     // the preface of HTTP/2, still to be read
	HTTP2Read = Greeting(http2Read) // the preface of HTTP/2, which has been read: see h2.Conn.PrefaceRead
)

// Sniff waits for the first bytes of an unencrypted connection and reports which protocol they begin.
// The connection it returns is to be used in nc's place; it reads them again where they were read. nc's
// deadlines bound the wait. On an error, which is nc's, nc is the caller's to close.
func Sniff(nc net.Conn) (net.Conn, Greeting, error) {
	conn, f, err := sniff(nc)
	return conn, Greeting(f), err
}
