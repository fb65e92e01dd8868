package h2http

import (
	"github.com/tarn-go/tarn/debug/endpoint"
	"github.com/tarn-go/tarn/internal/connstate"
)

var (
	_ endpoint.Observer = (*Server)(nil)
	_ endpoint.Observer = (*Transport)(nil)
)

// Endpoint is the server's state for the debug page: its HTTP/2 connections, what ended them, and, after Observe, its
// requests of HTTP/2. It is safe for concurrent use.
func (s *Server) Endpoint() endpoint.State {
	e := endpoint.State{Kind: "HTTP server", Name: s.http.Addr}
	if first := s.first.Load(); e.Name == "" && first != nil {
		e.Name = *first
	}
	connstate.Report(s.engine.maker, &e)
	s.engine.requests.report(&e, "reset")
	return e
}

// Observe has the server count the requests of HTTP/2 that come from now on, and what they take: from when the header has come until the
// handler has returned and the end of the response was sent. They are counted by method and [http.Request.Pattern], which a ServeMux sets,
// and by the class of the status. Requests that reach no ServeMux, or one behind a handler that has copied them (WithContext does), CONNECTs
// that a ServeMux redirects, patterns of more than 1 KiB, and the routes beyond the 256th, count as "other". debug.Registry.AddEndpoints calls Observe. It is safe for concurrent use.
func (s *Server) Observe() { s.engine.requests.observe() }

// Endpoint is the transport's state for the debug page: its connections and, after Observe, its requests. It is safe for
// concurrent use.
func (t *Transport) Endpoint() endpoint.State {
	t.init()
	e := endpoint.State{Kind: "HTTP client"}
	if t.err == nil {
		connstate.Report(t.pool.maker, &e)
	}
	t.requests.report(&e, "error")
	return e
}

// Observe has the transport count the requests that are sent from now on, by method, host and the class of the status, and what RoundTrip
// takes for them: until the response's header has come. Hosts of more than 1 KiB, and those beyond the 256th,
// count as "other".
// debug.Registry.AddEndpoints calls Observe. It is safe for concurrent use.
func (t *Transport) Observe() { t.requests.observe() }
