package h2http

import (
	"github.com/tarn-go/tarn/debug/endpoint"
	"github.com/tarn-go/tarn/h2"
)

// Endpoint is the server's state for the debug page: its HTTP/2 connections and what ended them.
func (s *Server) Endpoint() endpoint.State {
	e := endpoint.State{Kind: "HTTP server", Name: s.http.Addr}
	h2.Report(s.engine.maker, &e)
	return e
}

// Endpoint is the transport's state for the debug page.
func (t *Transport) Endpoint() endpoint.State {
	t.init()
	e := endpoint.State{Kind: "HTTP client"}
	if t.err == nil {
		h2.Report(t.pool.maker, &e)
	}
	return e
}
