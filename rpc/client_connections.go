package rpc

import (
	"maps"
	"slices"
	"sync"
)

// connections are those of a client, with the goroutines that make and check them. Close ends the first and waits for both.
type connections struct {
	wg sync.WaitGroup

	mu     sync.Mutex // while it is held, streams takes the locks of connections of h2; no other is taken, and no function of the application's runs
	closed bool
	all    map[*clientConn]struct{}
}

// begin counts a goroutine that Close waits for, until wg.Done; false after Close.
func (s *connections) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.wg.Add(1)
	return true
}

// add adds c to the connections that Close ends; it fails when Close has been called already.
func (s *connections) add(c *clientConn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wg.Add(1)
	if s.closed {
		return ErrClientConnClosing
	}
	if s.all == nil {
		s.all = make(map[*clientConn]struct{})
	}
	s.all[c] = struct{}{}
	return nil
}

// remove removes c, which has ended. It reports whether Close has been called and waits for c's stats handlers. A handler that calls Close
// itself must not be waited for.
func (s *connections) remove(c *clientConn) (awaited bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, c)
	if s.closed {
		return true
	}
	s.wg.Done()
	return false
}

// close lets no more begin, and returns those to be ended.
func (s *connections) close() []*clientConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return slices.Collect(maps.Keys(s.all))
}

// streams is how many streams the application's calls have.
func (s *connections) streams() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.all {
		n += max(0, c.h2c.Streams()-int(c.own.Load())) // an own call may have no stream yet or any more, or wait for one
	}
	return n
}
