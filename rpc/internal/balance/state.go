package balance

import (
	"context"
	"sync"

	"github.com/tarn-go/tarn/rpc/internal/signal"
	"google.golang.org/grpc/connectivity"
)

// Watcher is shown a Channel's states.
type Watcher interface {
	// Show is called with the state when Watch begins, and with each state that follows, one at a time. It must not use the Channel.
	Show(connectivity.State)
}

// state is a client's connectivity state, and whoever waits for its changes or shows it.
type state struct {
	mu       sync.Mutex // taken after names.mu
	now      connectivity.State
	changed  signal.Signal
	watchers map[Watcher]struct{}
}

// State is the connectivity state.
func (ch *Channel) State() connectivity.State {
	s := &ch.state
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// setState changes the state, of which SHUTDOWN is the last, and wakes the goroutines that wait for a change.
func (ch *Channel) setState(to connectivity.State) {
	s := &ch.state
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == connectivity.Shutdown || s.now == to {
		return
	}
	s.now = to
	ch.entity.SetState(to)
	logger.Info("client of", ch.name+":", to)
	s.changed.Notify()
	for w := range s.watchers {
		w.Show(to)
	}
}

// WaitForState returns true when the state is no longer source, false when ctx ends first.
func (ch *Channel) WaitForState(ctx context.Context, source connectivity.State) bool {
	s := &ch.state
	for {
		s.mu.Lock()
		now, changed := s.now, s.changed.Next()
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

// Watch shows w the state, and its changes until Unwatch. It reports whether w has been shown them already.
func (ch *Channel) Watch(w Watcher) (again bool) {
	s := &ch.state
	s.mu.Lock()
	defer s.mu.Unlock()
	_, again = s.watchers[w]
	put(&s.watchers, w)
	w.Show(s.now)
	return again
}

// Unwatch ends Watch.
func (ch *Channel) Unwatch(w Watcher) {
	s := &ch.state
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watchers, w)
}
