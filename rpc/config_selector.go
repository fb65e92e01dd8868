package rpc

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarn-go/tarn/rpc/internal/balance"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"
)

// ConfigSelector decides, for each call, on what depends on more than a service config: the cluster that the
// call goes to, and the settings of its route. It is the interface for a control plane's resolver (gRFC A31),
// which adds one to its state with [SetConfigSelector]. Module github.com/tarn-go/tarn/rpc/xds has one that uses
// grpc-go's xDS resolver.
type ConfigSelector interface {
	// SelectConfig is called once for each call before anything is sent, concurrently. When err is not nil
	// the call ends with it: with its status, if it has one that a control plane may use (gRFC A54), and
	// UNAVAILABLE otherwise. It must not block.
	SelectConfig(CallInfo) (CallConfig, error)
}

// CallInfo describes a call that begins.
type CallInfo struct {
	Context   context.Context
	Method    string // "/service/method"
	Authority string // of the call's options; otherwise the client's
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
	// Intercept, if it is not nil, makes the call: as an interceptor does that comes after the application's, for
	// streams and unary calls alike.
	Intercept CallInterceptor
	// Committed, if it is not nil, is called once, when no further attempt of the call will be picked a connection
	// for: at the latest when it has ended, and for a stream that the caller receives from when the header of the
	// attempt that is kept has come. A stream may go on for long after that.
	Committed func()
	// Ended, if it is not nil, is called once, when the call has ended.
	Ended func()
}

// CallInterceptor makes one call. It may change context and options, wait, wrap the stream that next makes, or return
// without calling next, with an error or a stream of its own. The options include the client's defaults. A unary call is a stream, too: one
// SendMsg, CloseSend, and RecvMsg until it fails.
type CallInterceptor func(ctx context.Context, next CallStreamer, opts ...grpc.CallOption) (grpc.ClientStream, error)

// CallStreamer makes the stream of a call, for a [CallInterceptor].
type CallStreamer func(ctx context.Context, opts ...grpc.CallOption) (grpc.ClientStream, error)

type configSelectorKey struct{}

// SetConfigSelector returns s with a selector, for a resolver's UpdateState. It is used until the next state,
// which has its own or none. When UpdateState returns for that, it is not called any more.
//
// If both states have a selector, the client's balancer gets the new state before calls get the new selector, so that no call selects what
// the balancer does not know yet. The state's service config must therefore still have what the old selector selects.
func SetConfigSelector(s resolver.State, c ConfigSelector) resolver.State {
	s.Attributes = s.Attributes.WithValue(configSelectorKey{}, c)
	return s
}

// selector is a ConfigSelector in use by a client.
type selector struct {
	of ConfigSelector

	mu       sync.RWMutex // read while of is called
	replaced bool         // of is not called any more
}

// errRetired is returned by a selector that has been replaced.
var errRetired = errors.New("rpc: the config selector has been replaced")

func (s *selector) selectConfig(i CallInfo) (CallConfig, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.replaced {
		return CallConfig{}, errRetired
	}
	return s.of.SelectConfig(i)
}

// Retire implements balance.Selector: it returns when s is not called any more. No lock that a ConfigSelector could want is held.
func (s *selector) Retire() {
	s.mu.Lock()
	s.replaced = true
	s.mu.Unlock()
}

// selecting returns c with the selector of a resolver's state.
func selecting(c *balance.Config, s *resolver.State) *balance.Config {
	of, _ := s.Attributes.Value(configSelectorKey{}).(ConfigSelector)
	if of == nil {
		return c
	}
	sel := &selector{of: of}
	next, calls := *c, *callsOf(c)
	calls.selector = sel
	next.Selector, next.Calls = sel, &calls
	return &next
}

// selection is what a ConfigSelector has decided on a call.
type selection struct {
	config    *serviceConfig
	method    methodConfig // of config, with what has been selected
	intercept CallInterceptor
	committed func()      // nil: none
	ended     func()      // nil: none
	done      atomic.Bool // committed has been called
	ends      sync.Once
	reported  atomic.Bool
}

// intercepted reports whether an interceptor makes the call.
func (s *selection) intercepted() bool { return s != nil && s.intercept != nil }

// reports claims the report of the call's end; false if it has been made. The streams that an interceptor makes are one call.
func (s *selection) reports() bool { return s == nil || s.reported.CompareAndSwap(false, true) }

// commits reports whether the selector is to be told of the call's commitment yet.
func (s *selection) commits() bool { return s != nil && s.committed != nil && !s.done.Load() }

// commit is called when no further attempt follows.
func (s *selection) commit() {
	if s.commits() && s.done.CompareAndSwap(false, true) {
		s.committed()
	}
}

// end is called when the call has ended.
func (s *selection) end() {
	if s == nil {
		return
	}
	s.commit()
	if s.ended != nil {
		s.ends.Do(s.ended)
	}
}

// chooseConfig waits for a service config, calls its selector, if it has one, and returns the config with the settings of the call's method.
func (c *call) chooseConfig() (*serviceConfig, *methodConfig, error) {
	for {
		cfg, err := c.methods(c.ctx)
		if err != nil {
			return nil, nil, err
		}
		mc := cfg.find(c.method)
		if cfg.selector == nil {
			return cfg, mc, nil
		}
		mc, err = c.selectConfig(cfg, mc)
		if err != errRetired {
			return cfg, mc, err
		}
	}
}

// selectConfig calls the selector and returns the settings of the call: those of its method, mc, with what has been selected.
func (c *call) selectConfig(cfg *serviceConfig, mc *methodConfig) (*methodConfig, error) {
	r, err := cfg.selector.selectConfig(CallInfo{Context: c.ctx, Method: c.method, Authority: cmp.Or(c.info.authority, c.cc.authority)})
	if err == errRetired {
		return nil, err
	}
	if err != nil {
		return nil, selectorError(err)
	}
	sel := &selection{config: cfg, method: methodConfig{maxSend: -1, maxRecv: -1}, intercept: r.Intercept, committed: r.Committed, ended: r.Ended}
	c.selected = sel
	if err := checkPolicies(r.Retry, r.Hedging); err != nil {
		return nil, status.Errorf(codes.Internal, "config selector returned an invalid config: %v", err)
	}
	if r.Context != nil {
		c.ctx = r.Context
	}
	own := &sel.method
	if mc != nil {
		*own = *mc
	}
	if d := r.Timeout; d > 0 {
		own.timeout = &d
	}
	if r.Retry != nil || r.Hedging != nil {
		own.retry, own.hedging = r.Retry, r.Hedging
	}
	return own, nil
}

func selectorError(err error) error {
	st, ok := status.FromError(err)
	switch {
	case !ok:
		return status.Error(codes.Unavailable, err.Error())
	case balance.Restricted(st.Code()):
		return status.Errorf(codes.Internal, "config selector returned illegal status: %v", err)
	}
	return st.Err()
}
