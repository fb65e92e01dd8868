// Package h1 serves the ordinary unary calls among the requests of HTTP/1.1 connections, and passes each connection with the first other
// request on to another server.
package h1

import (
	"context"
	"crypto/tls"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/rpc/internal/timers"
	"github.com/tarn-go/tarn/wire"
)

// Config configures a Server.
type Config struct {
	// Handler serves the requests. They have neither Header nor Body: the ResponseWriter has the fields (see package fields) and the
	// body (AppendBody). It uses neither after it has returned.
	Handler http.Handler
	// Known reports whether POSTs to a path are served.
	Known func(path []byte) bool
	// HandOver takes ownership of a connection whose next request is not an ordinary one, and which gives its bytes again.
	HandOver func(net.Conn)
	Context  context.Context // the parent of the requests' contexts
	Pool     *tarn.Pool
	// MaxHead bounds the head of an ordinary request, in bytes; 0, and more than 8 KiB, mean 8 KiB.
	MaxHead int
	// ReadTimeout bounds the time in which a head comes, and then a body; 0: no limit.
	ReadTimeout time.Duration
	// IdleTimeout bounds the time between requests; 0: no limit.
	IdleTimeout time.Duration
}

// Server serves connections.
type Server struct {
	Config
	timers timers.Heap
	dated  atomic.Pointer[dateText]

	mu       sync.Mutex
	conns    map[*conn]struct{}
	refusing bool
	running  sync.WaitGroup // connections
}

// New makes a Server.
func New(c Config) *Server {
	if c.MaxHead <= 0 || c.MaxHead > maxHead {
		c.MaxHead = maxHead
	}
	return &Server{Config: c, conns: make(map[*conn]struct{})}
}

// Serve serves a connection, of which it takes ownership, until it ends or has been handed over.
func (s *Server) Serve(nc net.Conn) {
	c := &conn{srv: s, nc: nc, in: wire.NewReader(nc, s.Pool), out: wire.NewWriter(nc, s.Pool), ended: make(chan struct{})}
	c.stopped.L = &c.mu
	c.response.conn = c
	c.in.OnDeadline(c.passed)
	r := &http.Request{Method: http.MethodPost, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody}
	if a := nc.RemoteAddr(); a != nil {
		r.RemoteAddr = a.String()
	}
	if t, ok := nc.(interface{ ConnectionState() tls.ConnectionState }); ok {
		state := t.ConnectionState()
		r.TLS = &state
	}
	ctx, cancel := context.WithCancel(context.WithValue(s.Context, http.LocalAddrContextKey, nc.LocalAddr()))
	c.common, c.cancel = r.WithContext(ctx), cancel
	if !s.add(c) {
		cancel()
		nc.Close()
		return
	}
	c.serve()
}

func (s *Server) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusing {
		return false
	}
	s.conns[c] = struct{}{}
	s.running.Add(1)
	return true
}

func (s *Server) remove(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	s.running.Done()
}

type dateText struct {
	second int64
	text   string
}

// date is the time as the value of a Date field.
func (s *Server) date() string {
	now := time.Now()
	d := s.dated.Load()
	if d == nil || d.second != now.Unix() {
		d = &dateText{now.Unix(), now.UTC().Format(http.TimeFormat)}
		s.dated.Store(d)
	}
	return d.text
}

// Stop closes all connections. It returns when all have ended but those whose handlers are running.
func (s *Server) Stop() {
	for _, c := range s.refuse() {
		was := c.leave(over)
		if was != handed {
			c.nc.Close()
		}
		if was == waiting {
			<-c.ended
		}
	}
}

// Drain closes the connections that wait for a request; the others are closed after the response. New ones are refused.
func (s *Server) Drain() {
	for _, c := range s.refuse() {
		if c.leave(leaving) == waiting {
			c.nc.Close()
		}
	}
}

// Wait waits for all connections to end, after Drain or Stop.
func (s *Server) Wait() { s.running.Wait() }

// refuse refuses new connections, and returns those that there are.
func (s *Server) refuse() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusing = true
	return slices.Collect(maps.Keys(s.conns))
}
