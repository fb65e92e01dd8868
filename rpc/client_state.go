package rpc

import (
	"context"
	"sync"

	"google.golang.org/grpc/connectivity"
)

// channelState is a client's connectivity state, and whoever waits for its changes or shows it.
type channelState struct {
	mu       sync.Mutex // taken after names.mu
	now      connectivity.State
	changed  signal
	watchers map[*mirror]struct{}
}

func (s *channelState) get() connectivity.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// set changes the state of cc, of which SHUTDOWN is the last, and wakes the goroutines that wait for a change.
func (s *channelState) set(cc *ClientConn, to connectivity.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == connectivity.Shutdown || s.now == to {
		return
	}
	s.now = to
	cc.entity.SetState(to)
	logger.Info("client of", cc.name+":", to)
	s.changed.notify()
	for m := range s.watchers {
		m.show(to)
	}
}

// wait returns true when the state is no longer source, false when ctx ends first.
func (s *channelState) wait(ctx context.Context, source connectivity.State) bool {
	for {
		s.mu.Lock()
		now, changed := s.now, s.changed.next()
		s.mu.Unlock()
		if now != source {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// watch shows m the state, and its changes until unwatch. It reports whether m has been shown them already.
func (s *channelState) watch(m *mirror) (again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, again = s.watchers[m]
	put(&s.watchers, m)
	m.show(s.now)
	return again
}

func (s *channelState) unwatch(m *mirror) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watchers, m)
}
