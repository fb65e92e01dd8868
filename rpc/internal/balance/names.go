package balance

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tarn-go/tarn/rpc/internal/signal"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// names is what a client knows of its target: the service config that the resolver has led to, and the activity that finds addresses
// while the client is not IDLE.
type names struct {
	config atomic.Pointer[Config] // nil until the resolver has answered

	mu       sync.Mutex // taken after SubConn.mu and switcher.mu
	closed   bool
	active   *activity     // nil while IDLE
	last     *Config       // the last one applied
	resolved signal.Signal // when there is a config again
	idle     idleness
}

// Config is the service config; nil until the resolver has answered for the first time since the Channel was IDLE.
func (ch *Channel) Config() *Config { return ch.names.config.Load() }

// AwaitConfig leaves IDLE and waits for a service config, or for the state in which Config returns one or AwaitConfig fails. The error is a
// status.
func (ch *Channel) AwaitConfig(ctx context.Context) error { return ch.names.await(ctx, ch) }

// activate leaves IDLE, and reports whether it has. Otherwise act was there before.
func (n *names) activate(ch *Channel) (act *activity, begun bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.closed:
		return nil, false, ErrClosing
	case n.active != nil:
		return n.active, false, nil
	}
	n.active = newActivity(ch)
	ch.setState(connectivity.Connecting)
	n.idle.start(ch, n.active.set.IdleTimeout)
	n.active.names.run(n.active.resolve)
	return n.active, true, nil
}

// close lets no activity begin, and returns the one to be ended, or nil. It fails the second time.
func (n *names) close(ch *Channel) (*activity, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, ErrClosing
	}
	n.closed = true
	act := n.active
	n.active = nil
	ch.setState(connectivity.Shutdown)
	n.idle.stop()
	return act, nil
}

// forget makes calls that begin wait for a config, or fail if n has been closed.
func (n *names) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.setConfig(nil)
}

// setConfig makes cfg the config of new calls. n.mu is held.
func (n *names) setConfig(cfg *Config) {
	n.config.Store(cfg)
	n.resolved.Notify()
}

// await leaves IDLE and waits for a service config.
func (n *names) await(ctx context.Context, ch *Channel) error {
	defer ch.CallWaits()()
	if _, _, err := n.activate(ch); err != nil {
		return err
	}
	n.mu.Lock()
	resolved := n.resolved.Next()
	have := n.config.Load() != nil
	n.mu.Unlock()
	if have {
		return nil
	}
	select {
	case <-resolved:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// retire returns when no call uses the selector of act any more.
func (n *names) retire(act *activity) {
	n.mu.Lock()
	sel := act.selector
	n.mu.Unlock()
	retire(sel)
}

// subConns lists those of the running balancer.
func (n *names) subConns() []*SubConn {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.active == nil {
		return nil
	}
	return slices.Collect(maps.Keys(n.active.subs))
}
