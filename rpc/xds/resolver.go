package xds

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"
	"google.golang.org/grpc/status"
	grpcxds "google.golang.org/grpc/xds"
)

// Scheme is the scheme of the targets, as in xds:///service.
const Scheme = "xds"

// Option is an option of [NewResolver].
type Option interface{ apply(*builder) }

type option func(*builder)

func (f option) apply(b *builder) { f(b) }

// Bootstrap sets the bootstrap, as JSON (gRFC A27), instead of what the environment names. Each client of the resolver then has its own
// connections to the control plane, whose state package google.golang.org/grpc/xds/csds does not show. Without this option the clients of a
// program share them.
func Bootstrap(json []byte) Option {
	json = bytes.Clone(json)
	return option(func(b *builder) { b.bootstrap = json })
}

// NewResolver returns the resolver for [rpc.WithResolvers]. Errors, as of the bootstrap, are those of the clients' calls.
func NewResolver(opts ...Option) resolver.Builder {
	b := &builder{}
	for _, o := range opts {
		o.apply(b)
	}
	return b
}

type builder struct {
	bootstrap []byte // nil: the environment's
}

// Scheme implements resolver.Builder.
func (*builder) Scheme() string { return Scheme }

// errNotRegistered is not expected: the import of package google.golang.org/grpc/xds registers it.
var errNotRegistered = errors.New("xds: grpc-go has no resolver for the scheme xds")

// Build implements resolver.Builder.
func (b *builder) Build(t resolver.Target, cc resolver.ClientConn, o resolver.BuildOptions) (resolver.Resolver, error) {
	of, err := b.grpcs()
	if err != nil {
		return nil, err
	}
	return of.Build(t, &client{ClientConn: cc}, o)
}

// grpcs is grpc-go's builder.
func (b *builder) grpcs() (resolver.Builder, error) {
	if b.bootstrap != nil {
		return grpcxds.NewXDSResolverWithConfigForTesting(b.bootstrap) // whose name is all that is of tests
	}
	of := resolver.Get(Scheme)
	if of == nil {
		return nil, errNotRegistered
	}
	return of, nil
}

// client translates what grpc-go's resolver passes to its client for one of package rpc.
type client struct {
	resolver.ClientConn // package rpc's

	mu    sync.Mutex
	empty *serviceconfig.ParseResult // of the config "{}", parsed last; nil: another was
}

// ParseServiceConfig implements resolver.ClientConn.
func (c *client) ParseServiceConfig(text string) *serviceconfig.ParseResult {
	r := c.ClientConn.ParseServiceConfig(text)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.empty = nil; text == "{}" {
		c.empty = r
	}
	return r
}

// gone reports whether a state is the one by which grpc-go's resolver says that the service is not there any more. It has no selector, and
// an error follows.
func (c *client) gone(s *resolver.State) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.empty != nil && s.ServiceConfig == c.empty
}

// UpdateState implements resolver.ClientConn.
func (c *client) UpdateState(s resolver.State) error {
	if c.gone(&s) {
		return c.ClientConn.UpdateState(s)
	}
	sel, err := selectorOf(s.Attributes)
	if err != nil {
		return c.refuse(err)
	}
	return c.ClientConn.UpdateState(rpc.SetConfigSelector(s, sel))
}

// refuse makes each call fail with err.
func (c *client) refuse(err error) error {
	err = fmt.Errorf("xds: grpc-go %s: %w", grpc.Version, err)
	none := resolver.State{ServiceConfig: c.ClientConn.ParseServiceConfig("{}")}
	_ = c.ClientConn.UpdateState(rpc.SetConfigSelector(none, refusal{status.Error(codes.Unavailable, err.Error())})) // pick_first has no addresses
	c.ClientConn.ReportError(err)
	return err
}

// refusal is a selector that refuses each call.
type refusal struct{ err error }

// SelectConfig implements rpc.ConfigSelector.
func (r refusal) SelectConfig(rpc.CallInfo) (rpc.CallConfig, error) { return rpc.CallConfig{}, r.err }
