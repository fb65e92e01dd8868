package balance

import "sync"

// serial runs functions one after another, in the order in which they were added. It has a goroutine only
// while a function runs. The zero value is ready.
type serial struct {
	mu      sync.Mutex
	queue   []func()
	running bool
	closed  bool
	turn    *turn // of the goroutine; nil: it does not yield
}

// run queues f and does not wait; false after close.
func (s *serial) run(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.add(f)
	return true
}

// call queues f and waits until it has run; false after close. A function run by s must not call it.
func (s *serial) call(f func()) bool {
	done := make(chan struct{})
	if !s.run(func() { defer close(done); f() }) {
		return false
	}
	<-done
	return true
}

// close queues f as the last function and waits until it has run. Only the first
// call has an effect.
func (s *serial) close(f func()) {
	done := make(chan struct{})
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	s.add(func() { defer close(done); f() })
	s.mu.Unlock()
	<-done
}

// add queues f. s.mu is held.
func (s *serial) add(f func()) {
	s.queue = append(s.queue, f)
	if !s.running {
		s.running = true
		go s.drain()
	}
}

func (s *serial) drain() {
	s.turn.begin()
	for {
		s.mu.Lock()
		if len(s.queue) == 0 {
			s.queue, s.running = nil, false
			s.mu.Unlock()
			return
		}
		f := s.queue[0]
		s.queue[0] = nil
		s.queue = s.queue[1:]
		s.mu.Unlock()
		f()
		s.turn.yield()
	}
}
