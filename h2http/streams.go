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
