package h2http

import (
	"net/http"

	"github.com/tarn-go/tarn/debug/endpoint"
	"github.com/tarn-go/tarn/h2"
)

// Endpoint returns what the debug page shows of a server: its HTTP/2 connections and
// what ended them. srv must have been passed to [ConfigureServer] before; of another one
// nothing is shown.
func Endpoint(srv *http.Server) endpoint.Source { return serverEndpoint{srv.Addr, engineOf(srv)} }

type serverEndpoint struct {
	addr   string
	engine *engine // nil: srv is not configured
}

// Endpoint implements endpoint.Source.
func (s serverEndpoint) Endpoint() endpoint.State {
	e := endpoint.State{Kind: "HTTP server", Name: s.addr}
	if s.engine != nil && s.engine.maker != nil {
		h2.Report(s.engine.maker, &e)
	}
	return e
}

// Endpoint is the transport's state for the debug page, as [Endpoint] is a server's.
func (t *Transport) Endpoint() endpoint.State {
	t.init()
	e := endpoint.State{Kind: "HTTP client"}
	if t.err == nil {
		h2.Report(t.pool.maker, &e)
	}
	return e
}
