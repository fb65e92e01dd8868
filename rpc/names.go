package rpc

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// names is what a client knows of its target: the service config that the resolver has led to, and the activity that finds addresses
// while the client is not IDLE.
type names struct {
	config atomic.Pointer[serviceConfig] // nil until the resolver has answered

	mu       sync.Mutex // taken after subConn.mu and switcher.mu
	closed   bool
	active   *activity      // nil while IDLE
	last     *serviceConfig // the last one applied
	resolved signal         // when there is a config again
	idle     idleness
}

// activate leaves IDLE, and reports whether it has. Otherwise act was there before.
func (n *names) activate(cc *ClientConn) (act *activity, begun bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.closed:
		return nil, false, ErrClientConnClosing
	case n.active != nil:
		return n.active, false, nil
	}
	n.active = newActivity(cc)
	cc.state.set(cc, connectivity.Connecting)
	n.idle.start(cc)
	n.active.names.run(n.active.resolve)
	return n.active, true, nil
}

// close lets no activity begin, and returns the one to be ended, or nil. It fails the second time.
func (n *names) close(cc *ClientConn) (*activity, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, ErrClientConnClosing
	}
	n.closed = true
	act := n.active
	n.active = nil
	cc.state.set(cc, connectivity.Shutdown)
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
func (n *names) setConfig(cfg *serviceConfig) {
	n.config.Store(cfg)
	n.resolved.notify()
}

// await leaves IDLE and waits for a service config.
func (n *names) await(ctx context.Context, cc *ClientConn) error {
	defer n.idle.waiting()()
	if _, _, err := n.activate(cc); err != nil {
		return err
	}
	n.mu.Lock()
	resolved := n.resolved.next()
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
	sel.retire()
}

// subConns lists those of the running balancer.
func (n *names) subConns() []*subConn {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.active == nil {
		return nil
	}
	return slices.Collect(maps.Keys(n.active.subs))
}
