package rpc

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"
)

// ConfigSelector decides, for each call, on what depends on more than a service config: the cluster that the
// call goes to, and the settings of its route. It is the interface for a control plane's resolver (gRFC A31),
// which adds one to its state with [SetConfigSelector]. grpc-go's own, which its xDS resolver makes, is
// internal to grpc-go and cannot be used here.
type ConfigSelector interface {
	// SelectConfig is called once for each call before anything is sent, concurrently. When err is not nil
	// the call ends with it: with its status, if it has one that a control plane may use (gRFC A54), and
	// UNAVAILABLE otherwise.
	SelectConfig(CallInfo) (CallConfig, error)
}

// CallInfo describes a call that begins.
type CallInfo struct {
	Context context.Context
	Method  string // "/service/method"
}

// CallConfig is the decision of a [ConfigSelector].
type CallConfig struct {
	// Context, if it is not nil, replaces the call's; it is derived from CallInfo's. Pickers get it in
	// balancer.PickInfo, so that a balancer's picker finds the selected cluster or hash in it.
	Context context.Context
	// Timeout, above 0, bounds the call, like the service config's.
	Timeout time.Duration
	// Retry or Hedging replaces the service config's. At most one is set: with both, or with one that is
	// incomplete or out of range, the call ends with INTERNAL.
	Retry   *RetryPolicy
	Hedging *HedgingPolicy
	// Ended, if it is not nil, is called once, when the call has ended.
	Ended func()
}

type configSelectorKey struct{}

// SetConfigSelector returns s with a selector, for a resolver's UpdateState. It is used until the next state,
// which has its own or none.
func SetConfigSelector(s resolver.State, c ConfigSelector) resolver.State {
	s.Attributes = s.Attributes.WithValue(configSelectorKey{}, c)
	return s
}

// selecting returns c with the selector of a resolver's state.
func (c *serviceConfig) selecting(s *resolver.State) *serviceConfig {
	sel, _ := s.Attributes.Value(configSelectorKey{}).(ConfigSelector)
	if sel == nil && c.selector == nil {
		return c
	}
	next := *c
	next.selector = sel
	return &next
}

// selectConfig calls the selector, if there is one, and returns the settings of the call's method.
func (c *call) selectConfig(cfg *serviceConfig) (*methodConfig, error) {
	mc := cfg.find(c.method)
	if cfg.selector == nil {
		return mc, nil
	}
	r, err := cfg.selector.SelectConfig(CallInfo{Context: c.ctx, Method: c.method})
	if err != nil {
		return nil, selectorError(err)
	}
	c.ended = r.Ended
	if err := checkPolicies(r.Retry, r.Hedging); err != nil {
		return nil, status.Errorf(codes.Internal, "config selector returned an invalid config: %v", err)
	}
	if r.Context != nil {
		c.ctx = r.Context
	}
	own := methodConfig{maxSend: -1, maxRecv: -1}
	if mc != nil {
		own = *mc
	}
	if r.Timeout > 0 {
		own.timeout = &r.Timeout
	}
	if r.Retry != nil || r.Hedging != nil {
		own.retry, own.hedging = r.Retry, r.Hedging
	}
	return &own, nil
}

func selectorError(err error) error {
	st, ok := status.FromError(err)
	switch {
	case !ok:
		return status.Error(codes.Unavailable, err.Error())
	case restricted(st.Code()):
		return status.Errorf(codes.Internal, "config selector returned illegal status: %v", err)
	}
	return st.Err()
}
