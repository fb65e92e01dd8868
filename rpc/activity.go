package rpc

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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

// activity is the part of a client that exists while it is not IDLE: a resolver, a balancer, and the subConns
// that the balancer has made. Calls of the resolver are made one at a time, and so are calls of the balancer.
// A resolver that reports a state waits for the balancer's answer; otherwise neither waits for the other's
// queue.
type activity struct {
	cc       *ClientConn
	names    serial
	policy   serial
	turn     turn              // of policy
	resolver resolver.Resolver // used in names only; nil until built
	balancer switcher

	subs map[*subConn]struct{} // cc.mu
	pace *pacer                // cc.mu; nil: there have always been few subConns

	endpoints int // cc.mu; the resolver's last, for channelz
}

// activate leaves IDLE. cc.mu is held.
func (cc *ClientConn) activate() error {
	if cc.state == connectivity.Shutdown {
		return ErrClientConnClosing
	}
	if cc.active != nil {
		return nil
	}
	act := &activity{cc: cc, turn: turn{epoch: time.Now()}}
	act.policy.turn = &act.turn
	act.balancer.init(act)
	cc.active = act
	cc.setState(connectivity.Connecting)
	cc.idle.start(cc)
	act.names.run(act.resolve)
	return nil
}

// resolve builds the resolver. It runs in names.
func (act *activity) resolve() {
	o := &act.cc.opts
	b := act.cc.builder
	if o.dialer == nil && !o.noProxy && !o.localDNS && act.cc.target.URL.Scheme == "dns" {
		b = proxiedNames{b}
	}
	r, err := b.Build(act.cc.target, nameClient{act}, resolver.BuildOptions{
		DisableServiceConfig: o.noResolverConfig, DialCreds: o.creds, CredsBundle: o.bundle,
		Dialer: o.dialer, Authority: act.cc.authority, MetricsRecorder: act.cc.recorder,
	})
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

// close ends resolver, balancer and subConns, and waits for the first two. The
// client has dropped its reference to act.
func (act *activity) close() {
	// The resolver first: one that waits for the balancer's answer gets it.
	act.names.close(func() {
		if act.resolver != nil {
			act.resolver.Close()
		}
	})
	act.policy.close(act.balancer.close)
	act.cc.mu.Lock()
	subs := act.subs
	act.subs = nil
	act.cc.mu.Unlock()
	for s := range subs {
		s.shutdown()
	}
}

// show publishes the balancer's state, unless act has been closed.
func (act *activity) show(s balancer.State) {
	cc := act.cc
	cc.mu.Lock()
	defer cc.mu.Unlock()
	if cc.active != act {
		return
	}
	cc.setPicker(s.Picker)
	cc.setState(s.ConnectivityState)
}

// nameClient is the resolver.ClientConn of a client.
type nameClient struct{ act *activity }

// UpdateState implements resolver.ClientConn: the state replaces the last one. It returns the balancer's
// error when the balancer has processed the state.
func (n nameClient) UpdateState(s resolver.State) error {
	act := n.act
	if s.Endpoints == nil {
		s.Endpoints = endpointsOf(s.Addresses)
	}
	cfg, err := act.configure(&s)
	if cfg == nil {
		return err
	}
	var answer error
	if !act.policy.call(func() { answer = act.balancer.update(cfg.policy, s) }) {
		return nil
	}
	if err != nil {
		return err
	}
	return answer
}

// ReportError implements resolver.ClientConn.
func (n nameClient) ReportError(err error) {
	act := n.act
	if act.apply(nil, nil) == nil {
		return
	}
	act.cc.warn("Resolver reported an error: %v", err)
	act.policy.run(func() { act.balancer.resolverError(err) })
}

// NewAddress implements resolver.ClientConn, for resolvers older than UpdateState.
func (n nameClient) NewAddress(addrs []resolver.Address) {
	_ = n.UpdateState(resolver.State{Addresses: addrs})
}

// ParseServiceConfig implements resolver.ClientConn.
func (n nameClient) ParseServiceConfig(js string) *serviceconfig.ParseResult {
	if js == "" {
		return &serviceconfig.ParseResult{Err: fmt.Errorf("%w: it is empty", ErrServiceConfig)}
	}
	cfg, err := parseServiceConfig(js, lenient)
	if err != nil {
		return &serviceconfig.ParseResult{Err: err}
	}
	return &serviceconfig.ParseResult{Config: cfg}
}

// configure applies the service config that comes with a resolver's state. Without a config the state cannot
// be used. The error is for the resolver.
func (act *activity) configure(s *resolver.State) (*serviceConfig, error) {
	r := s.ServiceConfig
	if r == nil || act.cc.opts.noResolverConfig {
		return act.apply(nil, s), nil
	}
	err := r.Err
	if err == nil {
		var cfg *serviceConfig
		if cfg, err = parsedServiceConfig(r.Config); err == nil {
			return act.apply(cfg, s), nil
		}
	}
	act.cc.warn("Resolver returned a service config that cannot be used: %v", err)
	act.cc.mu.Lock()
	last := act.cc.last
	act.cc.mu.Unlock()
	if last != nil {
		return act.apply(nil, s), balancer.ErrBadResolverState
	}
	act.show(balancer.State{ConnectivityState: connectivity.TransientFailure,
		Picker: errorPicker{status.Errorf(codes.Unavailable, "error parsing service config: %v", err)}})
	act.cc.mu.Lock()
	if act.cc.active == act {
		act.cc.setConfig(act.cc.fallback)
	}
	act.cc.mu.Unlock()
	return nil, balancer.ErrBadResolverState
}

// apply makes cfg the client's service config, with the selector of s; nil keeps the last one, or the
// default. Without a state the selector stays. It returns the config in use, nil when act has been closed.
func (act *activity) apply(cfg *serviceConfig, s *resolver.State) *serviceConfig {
	cc := act.cc
	cc.mu.Lock()
	defer cc.mu.Unlock()
	if cc.active != act {
		return nil
	}
	if cfg == nil {
		if cfg = cc.last; cfg == nil {
			cfg = cc.fallback
		}
	}
	if s != nil {
		act.logState(cfg, s)
		cfg = cfg.selecting(s)
	}
	cc.last = cfg
	cc.setConfig(cfg)
	return cfg
}

// logState notes what a resolver's state changes, with cfg the config that it leads to. cc.mu is held.
func (act *activity) logState(cfg *serviceConfig, s *resolver.State) {
	cc := act.cc
	last := cc.last
	if last == nil {
		last = cc.fallback
	}
	var changes []string
	if cfg.text != last.text {
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
	cc.note("Resolver state updated: %d endpoints (%s)", n, strings.Join(changes, "; "))
}

// setConfig makes cfg the config of new calls. cc.mu is held.
func (cc *ClientConn) setConfig(cfg *serviceConfig) {
	cc.config.Store(cfg)
	cc.resolved.notify()
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
