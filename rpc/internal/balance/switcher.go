package balance

import (
	"errors"
	"fmt"
	"sync"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	estats "google.golang.org/grpc/experimental/stats"
	"google.golang.org/grpc/resolver"
)

// errNoAddresses is what a balancer gets for a SubConn without an address.
var errNoAddresses = errors.New("rpc: balancer asked for a SubConn without an address")

// switcher runs a client's balancer. When the service config names another, the new one connects beside the
// old one, which serves calls until the new one is no longer CONNECTING or the old one is no longer READY.
// Its methods run in the activity's policy queue.
type switcher struct {
	act  *activity
	opts balancer.BuildOptions

	mu      sync.Mutex // balancers call from their own goroutines
	current *child
	pending *child // nil unless a switch is going on
}

// child is one balancer and its view of the client: a balancer.ClientConn.
type child struct {
	balancer.ClientConn // grpc-go's marker; every method is overridden
	sw                  *switcher
	builder             balancer.Builder
	b                   balancer.Balancer

	last balancer.State        // sw.mu
	subs map[*SubConn]struct{} // sw.mu
}

func (sw *switcher) init(act *activity) {
	sw.act, sw.opts = act, act.set.Balancer
}

// latest is the balancer that gets the resolver's states.
func (sw *switcher) latest() *child {
	sw.mu.Lock()
	defer sw.mu.Unlock()
	if sw.pending != nil {
		return sw.pending
	}
	return sw.current
}

// update passes a resolver's state to the balancer that p names.
func (sw *switcher) update(p *Policy, s resolver.State) error {
	ch := sw.latest()
	if ch == nil || ch.builder.Name() != p.Builder.Name() {
		ch = sw.switchTo(p.Builder)
	}
	return ch.b.UpdateClientConnState(balancer.ClientConnState{ResolverState: s, BalancerConfig: p.Settings})
}

func (sw *switcher) switchTo(b balancer.Builder) *child {
	ch := &child{sw: sw, builder: b, last: balancer.State{
		ConnectivityState: connectivity.Connecting, Picker: ErrorPicker{balancer.ErrNoSubConnAvailable}}}
	sw.mu.Lock()
	replaced := sw.pending
	if sw.current == nil {
		sw.current = ch
	} else {
		sw.pending = ch
	}
	sw.mu.Unlock()
	replaced.close()
	sw.act.ch.note("Channel switches to new LB policy %q", b.Name())
	if ch.b = b.Build(ch, sw.opts); ch.b == nil {
		panic(fmt.Sprintf("rpc: the builder of balancer %q returned nil", b.Name()))
	}
	return ch
}

func (sw *switcher) resolverError(err error) {
	if ch := sw.latest(); ch != nil {
		ch.b.ResolverError(err)
		return
	}
	sw.act.show(balancer.State{ConnectivityState: connectivity.TransientFailure, Picker: ErrorPicker{
		fmt.Errorf("name resolver error: %w", err)}})
}

func (sw *switcher) exitIdle() {
	ch := sw.latest()
	if ch == nil {
		return
	}
	if e, ok := ch.b.(balancer.ExitIdler); ok {
		e.ExitIdle()
		return
	}
	// A balancer without ExitIdle: connect its SubConns for it.
	sw.mu.Lock()
	defer sw.mu.Unlock()
	for s := range ch.subs {
		s.Connect()
	}
}

func (sw *switcher) close() {
	sw.mu.Lock()
	current, pending := sw.current, sw.pending
	sw.current, sw.pending = nil, nil
	sw.mu.Unlock()
	current.close()
	pending.close()
}

// swap replaces the current balancer by the pending one. sw.mu is held.
func (sw *switcher) swap() {
	old := sw.current
	sw.current, sw.pending = sw.pending, nil
	sw.act.show(sw.current.last)
	sw.act.policy.run(old.close)
}

// close closes a balancer and its remaining SubConns.
func (ch *child) close() {
	if ch == nil {
		return
	}
	ch.b.Close()
	ch.sw.mu.Lock()
	subs := ch.subs
	ch.subs = nil
	ch.sw.mu.Unlock()
	for s := range subs {
		s.Shutdown()
	}
}

// serves reports whether ch is in use. sw.mu is held.
func (ch *child) serves() bool { return ch == ch.sw.current || ch == ch.sw.pending }

// UpdateState implements balancer.ClientConn.
func (ch *child) UpdateState(s balancer.State) {
	sw := ch.sw
	sw.mu.Lock()
	defer sw.mu.Unlock()
	ch.last = s
	switch {
	case ch == sw.current && s.ConnectivityState != connectivity.Ready && sw.pending != nil:
		sw.swap()
	case ch == sw.current:
		sw.act.show(s)
	case ch == sw.pending && (s.ConnectivityState != connectivity.Connecting || sw.current.last.ConnectivityState != connectivity.Ready):
		sw.swap()
	}
}

// NewSubConn implements balancer.ClientConn.
func (ch *child) NewSubConn(addrs []resolver.Address, opts balancer.NewSubConnOptions) (balancer.SubConn, error) {
	if len(addrs) == 0 {
		return nil, errNoAddresses
	}
	ch.sw.act.turn.yield()
	ch.sw.mu.Lock()
	defer ch.sw.mu.Unlock()
	if !ch.serves() {
		return nil, errInactive
	}
	s, err := ch.sw.act.newSubConn(ch, addrs, opts)
	if err != nil {
		return nil, err
	}
	put(&ch.subs, s)
	return s, nil
}

// RemoveSubConn implements balancer.ClientConn.
func (ch *child) RemoveSubConn(sc balancer.SubConn) { sc.Shutdown() }

// UpdateAddresses implements balancer.ClientConn.
func (ch *child) UpdateAddresses(sc balancer.SubConn, addrs []resolver.Address) {
	sc.UpdateAddresses(addrs)
}

// ResolveNow implements balancer.ClientConn. It is ignored from a balancer that is being replaced.
func (ch *child) ResolveNow(resolver.ResolveNowOptions) {
	if ch == ch.sw.latest() {
		ch.sw.act.resolveNow()
	}
}

// Target implements balancer.ClientConn.
func (ch *child) Target() string { return ch.sw.act.ch.name }

// MetricsRecorder implements balancer.ClientConn.
func (ch *child) MetricsRecorder() estats.MetricsRecorder {
	return ch.sw.act.set.Metrics.Recorder()
}

// deliver reports a SubConn's state to the balancer. It runs in the policy queue.
func (ch *child) deliver(s *SubConn, st balancer.SubConnState) {
	ch.sw.mu.Lock()
	serves := ch.serves()
	if st.ConnectivityState == connectivity.Shutdown {
		delete(ch.subs, s)
	}
	ch.sw.mu.Unlock()
	switch {
	case !serves:
	case s.opts.StateListener != nil:
		s.opts.StateListener(st)
	default:
		ch.b.UpdateSubConnState(s, st)
	}
}
