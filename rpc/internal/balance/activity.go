package balance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"
	"google.golang.org/grpc/status"
)

// errInactive is returned to a resolver or balancer whose client has become IDLE or has been closed.
var errInactive = errors.New("rpc: the client has become idle or has been closed")

// activity is the part of a client that exists while it is not IDLE: a resolver, a balancer, and the SubConns
// that the balancer has made. Calls of the resolver are made one at a time, and so are calls of the balancer.
// A resolver that reports a state waits for the balancer's answer; otherwise neither waits for the other's
// queue.
type activity struct {
	ch       *Channel
	set      Settings
	names    serial
	policy   serial
	turn     turn              // of policy
	resolver resolver.Resolver // used in names only; nil until built
	balancer switcher

	states   sync.Mutex // held while a resolver's state is processed, one at a time
	selector Selector   // names.mu; the one that calls use; nil: none

	subs map[*SubConn]struct{} // names.mu
	pace *pacer                // names.mu; nil: there have always been few SubConns

	endpoints int // names.mu; the resolver's last, for channelz
}

func newActivity(ch *Channel) *activity {
	act := &activity{ch: ch, set: ch.owner.Settings(), turn: turn{epoch: time.Now()}}
	act.policy.turn = &act.turn
	act.balancer.init(act)
	return act
}

// resolve builds the resolver. It runs in names.
func (act *activity) resolve() {
	set := &act.set
	r, err := set.Builder.Build(set.Balancer.Target, nameClient{act}, set.Resolver)
	if err != nil {
		nameClient{act}.ReportError(fmt.Errorf("the resolver cannot be built: %w", err))
		return
	}
	act.resolver = r
}

func (act *activity) resolveNow() {
	act.names.run(func() {
		if act.resolver != nil {
			act.resolver.ResolveNow(resolver.ResolveNowOptions{})
		}
	})
}

// close ends resolver, balancer and SubConns, and waits for the first two. The
// client has dropped its reference to act.
func (act *activity) close() {
	act.ch.names.retire(act) // the resolver's Close may end what it selects
	// The resolver first: one that waits for the balancer's answer gets it.
	act.names.close(func() {
		if act.resolver != nil {
			act.resolver.Close()
		}
	})
	act.policy.close(act.balancer.close)
	act.ch.names.mu.Lock()
	subs := act.subs
	act.subs = nil
	act.ch.names.mu.Unlock()
	for s := range subs {
		s.shutdown()
	}
}

// show publishes the balancer's state, unless act has been closed.
func (act *activity) show(s balancer.State) {
	n := &act.ch.names
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.active == act {
		act.ch.setPicker(s.Picker)
		act.ch.setState(s.ConnectivityState)
	}
}

// nameClient is the resolver.ClientConn of a client.
type nameClient struct{ act *activity }

// UpdateState implements resolver.ClientConn: the state replaces the last one. It returns the balancer's
// error when the balancer has processed the state.
//
// Calls get the new service config first, unless both the old one and the new one have a selector: then the balancer gets the state first. It
// serves what either selects, and a call that is given what only the new selector selects before the balancer has heard of it fails.
func (n nameClient) UpdateState(s resolver.State) error {
	act := n.act
	act.states.Lock()
	defer act.states.Unlock()
	if s.Endpoints == nil {
		s.Endpoints = endpointsOf(s.Addresses)
	}
	cfg, err := act.configure(&s)
	if cfg == nil {
		return err
	}
	later := cfg.Selector != nil && act.selects()
	if !later {
		act.publish(cfg)
	}
	var answer error
	if !act.policy.call(func() { answer = act.balancer.update(cfg.Policy, s) }) {
		return nil
	}
	if later {
		act.publish(cfg)
	}
	if err != nil {
		return err
	}
	return answer
}

// ReportError implements resolver.ClientConn.
func (n nameClient) ReportError(err error) {
	act := n.act
	if !act.announce() {
		return
	}
	act.ch.warn("Resolver reported an error: %v", err)
	act.policy.run(func() { act.balancer.resolverError(err) })
}

// NewAddress implements resolver.ClientConn, for resolvers older than UpdateState.
func (n nameClient) NewAddress(addrs []resolver.Address) {
	_ = n.UpdateState(resolver.State{Addresses: addrs})
}

// ParseServiceConfig implements resolver.ClientConn.
func (n nameClient) ParseServiceConfig(js string) *serviceconfig.ParseResult {
	cfg, err := n.act.ch.owner.Parse(js)
	if err != nil {
		return &serviceconfig.ParseResult{Err: err}
	}
	return &serviceconfig.ParseResult{Config: cfg}
}

// configure returns the config that a resolver's state leads to. Without one the state cannot be used. The error is for the resolver.
func (act *activity) configure(s *resolver.State) (*Config, error) {
	r := s.ServiceConfig
	if r == nil || act.set.Resolver.DisableServiceConfig {
		return act.apply(nil, s), nil
	}
	err := r.Err
	if err == nil {
		var cfg *Config
		if cfg, err = act.parsed(r.Config); err == nil {
			return act.apply(cfg, s), nil
		}
	}
	act.ch.warn("Resolver returned a service config that cannot be used: %v", err)
	n := &act.ch.names
	n.mu.Lock()
	last := n.last
	n.mu.Unlock()
	if last != nil {
		return act.apply(nil, s), balancer.ErrBadResolverState
	}
	act.show(balancer.State{ConnectivityState: connectivity.TransientFailure,
		Picker: ErrorPicker{status.Errorf(codes.Unavailable, "error parsing service config: %v", err)}})
	act.publish(act.set.Fallback)
	return nil, balancer.ErrBadResolverState
}

// apply makes cfg the service config that further states without one keep, and returns it with the selector of s. If cfg is nil, the last one is
// kept, or the default. The result is nil when act has been closed.
func (act *activity) apply(cfg *Config, s *resolver.State) *Config {
	n := &act.ch.names
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.active != act {
		return nil
	}
	if cfg == nil {
		cfg = act.kept()
	}
	act.logState(cfg, s)
	n.last = cfg
	return act.ch.owner.Select(cfg, s)
}

// kept is the service config in use, or the default. names.mu is held.
func (act *activity) kept() *Config {
	if last := act.ch.names.last; last != nil {
		return last
	}
	return act.set.Fallback
}

// selects reports whether calls use a selector.
func (act *activity) selects() bool {
	n := &act.ch.names
	n.mu.Lock()
	defer n.mu.Unlock()
	return act.selector != nil
}

// announce gives calls a config, if they have none yet; false when act has been closed.
func (act *activity) announce() bool {
	n := &act.ch.names
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.active != act {
		return false
	}
	if n.config.Load() == nil {
		n.last = act.kept()
		n.setConfig(n.last)
	}
	return true
}

// publish makes cfg the config of new calls, and returns when none uses the selector of the last one, unless act has been closed.
func (act *activity) publish(cfg *Config) {
	n := &act.ch.names
	n.mu.Lock()
	var old Selector
	if n.active == act {
		old, act.selector = act.selector, cfg.Selector
		n.setConfig(cfg)
	}
	n.mu.Unlock()
	retire(old)
}

// logState notes what a resolver's state changes, with cfg the config that it leads to. names.mu is held.
func (act *activity) logState(cfg *Config, s *resolver.State) {
	last := act.kept()
	var changes []string
	if cfg.Text != last.Text {
		changes = append(changes, "service config updated")
	}
	n := len(s.Endpoints)
	switch {
	case n == 0 && act.endpoints > 0:
		changes = append(changes, "resolver returned an empty address list")
	case n > 0 && act.endpoints == 0:
		changes = append(changes, "resolver returned new addresses")
	}
	act.endpoints = n
	act.ch.note("Resolver state updated: %d endpoints (%s)", n, strings.Join(changes, "; "))
}

// endpointsOf makes an endpoint of each address, for resolvers older than endpoints.
func endpointsOf(addrs []resolver.Address) []resolver.Endpoint {
	out := make([]resolver.Endpoint, 0, len(addrs))
	for _, a := range addrs {
		attrs := a.BalancerAttributes
		a.BalancerAttributes = nil
		out = append(out, resolver.Endpoint{Addresses: []resolver.Address{a}, Attributes: attrs})
	}
	return slices.Clip(out)
}
