package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tarn-go/tarn/rpc/internal/grpcgo"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
)

// AsGRPC is cc for libraries that take a *grpc.ClientConn. All its calls are cc's:
// through cc's interceptors, statistics, credentials and connections. It opens no
// connection and resolves nothing. Its Target is cc's; GetState and
// WaitForStateChange follow cc's state, Connect connects cc, and Close closes cc, as
// Close of cc closes it. Call options go to cc with all that they report. Every call
// of AsGRPC returns the same ClientConn.
//
// It panics when grpc-go refuses to make the ClientConn, which happens only when the program has set global
// dial options that contradict cc's.
func AsGRPC(cc *ClientConn) *grpc.ClientConn {
	conn, err := cc.facade.get(cc)
	if err != nil {
		panic(fmt.Sprintf("rpc: grpc-go makes no ClientConn for %q: %v", cc.Target(), err))
	}
	return conn
}

// DialOptions is for libraries that make their *grpc.ClientConn themselves: with these options after the
// library's own, every call of that ClientConn is cc's. The target that the library names is not resolved,
// except by a resolver that the library itself gives for its scheme, whose results are not used,
// and no connection to it is made. Close of such a ClientConn leaves cc open.
//
// Of the options that a library sets beside them, these have their usual effect: interceptors (ahead of
// cc's), default call options with everything that they carry, and the user agent, which goes before cc's. A
// ClientConn does not expose these, so they have no effect: WithPerRPCCredentials (use grpc.PerRPCCredentials
// as a call option, or cc's own), WithStatsHandler, WithKeepaliveParams, WithConnectParams, window and buffer
// sizes, WithMaxHeaderListSize, WithDisableRetry and WithMaxCallAttempts. Give them to NewClient. cc's
// transport credentials, authority, resolvers, dialer and service config are used instead of the library's;
// with WithCredentialsBundle grpc-go refuses the options.
func DialOptions(cc *ClientConn) []grpc.DialOption {
	return newPortal(cc, borrowed).options()
}

// facade is the ClientConn of AsGRPC and of interceptors, made on first use.
type facade struct {
	conn atomic.Pointer[grpc.ClientConn] // set while mu is held

	mu     sync.Mutex
	closed bool
}

func (f *facade) get(cc *ClientConn) (*grpc.ClientConn, error) {
	if conn := f.conn.Load(); conn != nil {
		return conn, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if conn := f.conn.Load(); conn != nil {
		return conn, nil
	}
	p := newPortal(cc, owned)
	conn, err := grpc.NewClient(cc.Target(), p.options()...)
	if err != nil {
		return nil, err
	}
	if f.closed {
		conn.Close()
	} else {
		p.attach(conn)
	}
	f.conn.Store(conn)
	return conn, nil
}

// close closes the ClientConn. It may be called by its Close.
func (f *facade) close() error {
	f.mu.Lock()
	conn := f.conn.Load()
	f.closed = true
	f.mu.Unlock()
	if conn != nil {
		if err := conn.Close(); err != nil && !errors.Is(err, grpc.ErrClientConnClosing) {
			return err
		}
	}
	return nil
}

// ownership says whether Close of a stock ClientConn closes the client.
type ownership uint8

const (
	borrowed ownership = iota // nothing
	owned                     // it closes the client
)

// portal connects a stock ClientConn to a client: interceptors that make its calls, and credentials by which
// its balancer, which grpc-go makes by name, finds the client (see mirror).
type portal struct {
	credentials.TransportCredentials // the client's; connects nothing
	cc                               *ClientConn
	owns                             ownership
	stubs                            []*stubResolver // by which a ClientConn is found to be the portal's
	once                             sync.Once       // attach
	attaching                        atomic.Int32    // calls of Connect by attach that the balancer has yet to receive
	agent                            atomic.Pointer[agent]
	known                            atomic.Pointer[grpc.ClientConn] // one that has been found to be the portal's
}

func newPortal(cc *ClientConn, owns ownership) *portal {
	creds := cc.opts.creds
	switch {
	case creds != nil:
	case cc.scheme == "https": // WithRoundTripper's: grpc-go asks whether connections are private
		creds = credentials.NewTLS(nil)
	default:
		creds = insecure.NewCredentials()
	}
	p := &portal{TransportCredentials: creds, cc: cc, owns: owns}
	schemes := []string{"dns", "passthrough", "unix", "unix-abstract"}
	if s := cc.target.URL.Scheme; !slices.Contains(schemes, s) {
		schemes = append(schemes, s)
	}
	for _, s := range schemes {
		p.stubs = append(p.stubs, &stubResolver{scheme: s})
	}
	return p
}

var errNeverDials = errors.New("rpc: this ClientConn belongs to a client of package rpc and opens no connections")

// ClientHandshake implements credentials.TransportCredentials: it returns an error.
func (p *portal) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errNeverDials
}

// Clone implements credentials.TransportCredentials.
func (p *portal) Clone() credentials.TransportCredentials { return p }

func (p *portal) options() []grpc.DialOption {
	stubs := make([]resolver.Builder, len(p.stubs))
	for i, s := range p.stubs {
		stubs[i] = s
	}
	return []grpc.DialOption{
		grpc.WithTransportCredentials(p),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return nil, errNeverDials }),
		grpc.WithResolvers(stubs...),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultServiceConfig(mirrorConfig),
		grpc.WithDisableHealthCheck(),
		grpc.WithIdleTimeout(0),
		grpc.WithChainUnaryInterceptor(p.invoke),
		grpc.WithChainStreamInterceptor(p.newStream),
	}
}

// attach makes stock build its balancer, which then shows the client's state.
func (p *portal) attach(stock *grpc.ClientConn) {
	p.once.Do(func() {
		p.attaching.Add(1)
		stock.Connect()
	})
}

func (p *portal) invoke(ctx context.Context, method string, req, reply any, stock *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	switch p.callerOf(stock) {
	case byGRPC:
		return next(ctx, method, req, reply, stock, opts...)
	case byAnother:
		return stock.Invoke(ctx, method, req, reply, opts...)
	}
	if stock.GetState() == connectivity.Shutdown {
		failClosed(opts)
		return ErrClientConnClosing
	}
	return p.cc.Invoke(ctx, method, req, reply, p.with(stock, opts)...)
}

func (p *portal) newStream(ctx context.Context, desc *grpc.StreamDesc, stock *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	switch p.callerOf(stock) {
	case byGRPC:
		return next(ctx, desc, stock, method, opts...)
	case byAnother:
		return stock.NewStream(ctx, desc, method, opts...)
	}
	if stock.GetState() == connectivity.Shutdown {
		failClosed(opts)
		return nil, ErrClientConnClosing
	}
	return p.cc.NewStream(ctx, desc, method, p.with(stock, opts)...)
}

// failClosed reports a call of a closed ClientConn to its options.
func failClosed(opts []grpc.CallOption) {
	o := callOptions{rest: opts}
	o.report(nil, ErrClientConnClosing)
}

// caller says what makes the calls of a stock ClientConn.
type caller uint8

const (
	byClient  caller = iota // the portal's client
	byAnother               // another client of this package
	byGRPC                  // grpc-go
)

// callerOf finds what makes the calls of a ClientConn that the interceptor before the portal has passed on, which need not be one of the portal's.
// It is found by the stub resolvers among the ClientConn's options. If they cannot be read, it is taken for the portal's.
func (p *portal) callerOf(stock *grpc.ClientConn) caller {
	if p.known.Load() == stock {
		return byClient
	}
	stubs, readable := grpcgo.Resolvers[stubResolver](stock)
	switch {
	case !readable:
		return byClient
	case len(stubs) == 0:
		return byGRPC
	}
	for _, s := range p.stubs {
		if slices.Contains(stubs, grpcgo.PointerTo(s)) {
			p.known.Store(stock)
			return byClient
		}
	}
	return byAnother
}

// with adds the options that the library has set on stock.
func (p *portal) with(stock *grpc.ClientConn, opts []grpc.CallOption) []grpc.CallOption {
	if p.owns == owned {
		return opts
	}
	p.attach(stock)
	if a := p.agent.Load(); a != nil {
		return append(opts[:len(opts):len(opts)], agentOption{a: a})
	}
	return opts
}

// agent is a library's user agent and the request headers made with it.
type agent struct {
	name   string
	routes routes
}

// agentOption makes a call with another user agent.
type agentOption struct {
	grpc.EmptyCallOption
	a *agent
}

// stubResolver resolves every target to an address that is never dialled.
type stubResolver struct{ scheme string }

// Scheme implements resolver.Builder.
func (r *stubResolver) Scheme() string { return r.scheme }

// Build implements resolver.Builder.
func (r *stubResolver) Build(_ resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	return oneAddress(cc, "of a client of package rpc")
}

func resolverOf(bs []resolver.Builder, scheme string) resolver.Builder {
	for _, b := range bs {
		if b.Scheme() == scheme {
			return b
		}
	}
	return nil
}
