package h2http

import (
	"net"
	"sync"
	"time"

	"github.com/tarn-go/tarn/internal/workers"
)

// connections are those of a Server, and how they end together. A connection that Serve has accepted is new until its
// protocol is known; then it is one of HTTP/2, or net/http's and no longer here.
type connections struct {
	workers *workers.Pool[*exchange] // open while there is a connection
	ended   chan struct{}            // closed when the connections are to end and none is left

	mu       sync.Mutex
	http2    map[*serverConn]struct{}
	new      map[net.Conn]time.Time // when they were accepted
	phase    phase
	allEnded bool // ended is closed
}

// phase is how far the end of a Server has come. It only grows.
type phase uint8

const (
	serving  phase = iota
	draining       // every connection ends when its requests have
	aborting       // every connection ends at once
)

// newConnTimeout is how long a connection may take for its first bytes while the others drain, as in net/http.
const newConnTimeout = 5 * time.Second

func newConnections(w *workers.Pool[*exchange]) *connections {
	return &connections{workers: w, ended: make(chan struct{}), http2: make(map[*serverConn]struct{}), new: make(map[net.Conn]time.Time)}
}

// enter enters a connection whose protocol is not known yet. It reports whether that may still be served.
func (s *connections) enter(nc net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == aborting || s.allEnded {
		return false
	}
	s.new[nc] = time.Now()
	if s.phase == draining { // it was accepted just before the listener was closed
		s.limitNew(nc, newConnTimeout)
	}
	return true
}

// known removes a connection whose protocol is known, or that has ended before.
func (s *connections) known(nc net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.new, nc)
	s.checkEnded()
}

// add adds a connection of HTTP/2 before it begins.
func (s *connections) add(c *serverConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.http2) == 0 {
		s.workers.Open()
	}
	s.http2[c] = struct{}{}
}

// begun ends a connection that was added while the others end.
func (s *connections) begun(c *serverConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.phase {
	case draining:
		c.h2.Shutdown("")
	case aborting:
		c.h2.Close()
	}
}

// remove removes a connection that has ended.
func (s *connections) remove(c *serverConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.http2, c)
	s.checkEnded()
}

// count returns how many connections of HTTP/2 there are.
func (s *connections) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.http2)
}

// drain ends every connection when its requests have ended, and new ones after newConnTimeout.
func (s *connections) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != serving {
		return
	}
	s.phase = draining
	for c := range s.http2 {
		c.h2.Shutdown("")
	}
	for nc, since := range s.new {
		s.limitNew(nc, newConnTimeout-time.Since(since))
	}
	s.checkEnded()
}

// limitNew closes nc after d if its protocol is not known by then.
func (s *connections) limitNew(nc net.Conn, d time.Duration) {
	time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if _, ok := s.new[nc]; ok {
			nc.Close()
		}
	})
}

// close ends every connection at once.
func (s *connections) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase = aborting
	for c := range s.http2 {
		c.h2.Close()
	}
	for nc := range s.new {
		nc.Close()
	}
	s.checkEnded()
}

// checkEnded ends the workers when no connection of HTTP/2 is left, those of handlers that still run when these return.
// s.mu is held.
func (s *connections) checkEnded() {
	if len(s.http2) > 0 {
		return
	}
	s.workers.Close()
	if len(s.new) == 0 && s.phase != serving && !s.allEnded {
		s.allEnded = true
		close(s.ended)
	}
}
