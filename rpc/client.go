package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/resolve"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

var (
	// ErrNoTransportSecurity is returned by NewClient without
	// WithTransportCredentials.
	ErrNoTransportSecurity = errors.New("rpc: caller set no transport credentials (use WithTransportCredentials, with insecure.NewCredentials for plaintext)")
	// ErrCredentialsNeedSecurity is returned by NewClient when credentials that
	// demand a secure connection were given for an insecure one.
	ErrCredentialsNeedSecurity = errors.New("rpc: caller's per-RPC credentials require transport security")
	// ErrClientConnClosing is what calls of a closed client end with: CANCELLED.
	ErrClientConnClosing = status.Error(codes.Canceled, "grpc: the client connection is closing")
)

// ClientConn is a client of one target: a grpc.ClientConnInterface, over one
// connection or, with round_robin, one to each address. Its methods are safe for
// concurrent use.
type ClientConn struct {
	opts      dialOptions
	name      string // the target as given
	target    resolve.Target
	authority string
	scheme    string
	accepts   string
	balance   balance
	info      callInfo // what the default call options add up to
	config    *serviceConfig
	unary     grpc.UnaryClientInterceptor
	stream    grpc.StreamClientInterceptor
	shadow    *grpc.ClientConn // what interceptors are given; nil without any
	invoker   grpc.UnaryInvoker
	streamer  grpc.Streamer
	routes    routes
	maker     *h2.Maker
	attempts  attempts

	ready atomic.Pointer[readySet] // nil or empty: no connection to use

	wg sync.WaitGroup

	mu      sync.Mutex
	state   connectivity.State
	changed signal      // when state or ready changes
	lastErr error       // why the last attempt to connect failed
	active  bool        // a goroutine is connecting or holding connections
	first   *clientConn // pick_first's connection
	links   []*link
	conns   []*clientConn // all that live, those going away included
	hurry   signal        // of ResetConnectBackoff
	idle    idleness
}

// readySet is the connections that calls may use.
type readySet struct {
	conns []*clientConn
	next  atomic.Uint32
}

var _ grpc.ClientConnInterface = (*ClientConn)(nil)

// NewClient makes a client of target: dns:///name:port, plain name:port,
// passthrough:///address, unix:path or unix-abstract:name. It connects on the
// first call or on Connect. Close it in the end. Every error is the caller's.
func NewClient(target string, opts ...DialOption) (*ClientConn, error) {
	o := defaultDialOptions()
	for _, opt := range opts {
		opt.apply(&o)
	}
	cc := &ClientConn{opts: o, name: target}
	if err := cc.configure(); err != nil {
		return nil, err
	}
	return cc, nil
}

func (cc *ClientConn) configure() (err error) {
	o := &cc.opts
	if cc.target, err = resolve.Parse(cc.name); err != nil {
		return err
	}
	if o.creds == nil {
		return ErrNoTransportSecurity
	}
	cc.scheme = "https"
	if o.creds.Info().SecurityProtocol == "insecure" {
		cc.scheme = "http"
		for _, c := range o.perRPC {
			if c.RequireTransportSecurity() {
				return ErrCredentialsNeedSecurity
			}
		}
	}
	cc.authority = cc.target.Authority()
	if name := o.creds.Info().ServerName; name != "" {
		cc.authority = name
	}
	if o.authority != "" {
		cc.authority = o.authority
	}
	if cc.config, err = parseServiceConfig(o.serviceConfig); err != nil {
		return err
	}
	cc.balance = cc.config.balance
	if cc.maker, err = h2.Clients(o.h2()); err != nil {
		return err
	}
	cc.accepts = acceptEncoding(o.acceptEncoding)
	cc.info = defaultCallInfo()
	if err := cc.info.apply(o.callOptions); err != nil {
		return err
	}
	return cc.intercept()
}

// intercept prepares the interceptors, which want a *grpc.ClientConn: they get
// one that knows the target and refuses to connect.
func (cc *ClientConn) intercept() (err error) {
	o := &cc.opts
	if o.unaryOne != nil {
		o.unary = append([]grpc.UnaryClientInterceptor{o.unaryOne}, o.unary...)
	}
	if o.streamOne != nil {
		o.stream = append([]grpc.StreamClientInterceptor{o.streamOne}, o.stream...)
	}
	cc.unary, cc.stream = chainUnaryClient(o.unary), chainStreamClient(o.stream)
	if cc.unary == nil && cc.stream == nil {
		return nil
	}
	cc.invoker = func(ctx context.Context, method string, req, reply any, _ *grpc.ClientConn, opts ...grpc.CallOption) error {
		return cc.invoke(ctx, method, req, reply, opts)
	}
	cc.streamer = func(ctx context.Context, desc *grpc.StreamDesc, _ *grpc.ClientConn, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		return cc.newStream(ctx, desc, method, opts)
	}
	cc.shadow, err = grpc.NewClient("passthrough:///"+cc.name, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			return nil, errors.New("rpc: an interceptor must call its invoker, not the ClientConn it is given")
		}))
	return err
}

// h2 translates the options to a connection's configuration.
func (o *dialOptions) h2() h2.Config {
	cfg := h2.Config{Pool: o.pool, MaxHeaderList: o.maxHeaderList, Window: o.window, ConnWindow: o.connWindow}
	if o.fixedWindow {
		cfg.MaxWindow = cfg.Window
	}
	if o.keepalive.Time > 0 {
		cfg.Keepalive = h2.Keepalive{Time: max(o.keepalive.Time, minKeepalive), Timeout: o.keepalive.Timeout}
		if o.keepalive.PermitWithoutStream {
			cfg.Keepalive.WithoutCall = h2.Permit
		}
	}
	cfg.Policy.MinTime = -1 // clients do not police servers' pings
	return cfg
}

const minKeepalive = 10 * time.Second

// Target is what NewClient was given.
func (cc *ClientConn) Target() string { return cc.name }

// GetState is the connectivity state.
func (cc *ClientConn) GetState() connectivity.State {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	return cc.state
}

// WaitForStateChange returns true when the state is no longer source, false when
// ctx ends first.
func (cc *ClientConn) WaitForStateChange(ctx context.Context, source connectivity.State) bool {
	for {
		cc.mu.Lock()
		state, changed := cc.state, cc.changed.next()
		cc.mu.Unlock()
		if state != source {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// Connect leaves IDLE without a call. It does not wait.
func (cc *ClientConn) Connect() {
	cc.mu.Lock()
	cc.activate()
	cc.mu.Unlock()
}

// ResetConnectBackoff makes waiting attempts to connect go ahead at once.
func (cc *ClientConn) ResetConnectBackoff() {
	cc.mu.Lock()
	cc.hurry.tell()
	cc.mu.Unlock()
}

// Close ends all connections and calls and returns when their goroutines are
// gone. A second Close returns ErrClientConnClosing.
func (cc *ClientConn) Close() error {
	cc.mu.Lock()
	if cc.state == connectivity.Shutdown {
		cc.mu.Unlock()
		return ErrClientConnClosing
	}
	cc.setState(connectivity.Shutdown)
	cc.ready.Store(nil)
	cc.idle.stop()
	conns := slices.Clone(cc.conns)
	cc.mu.Unlock()
	for _, c := range conns {
		c.h2c.Close()
	}
	cc.wg.Wait()
	if cc.shadow != nil {
		return cc.shadow.Close()
	}
	return nil
}

// setState notes a state and tells who waits. cc.mu is held.
func (cc *ClientConn) setState(s connectivity.State) {
	if cc.state == connectivity.Shutdown {
		return
	}
	cc.state = s
	cc.changed.tell()
}

// pick returns a connection for a call. Without waitForReady it fails with
// UNAVAILABLE while the target cannot be reached.
func (cc *ClientConn) pick(ctx context.Context, ci *callInfo) (*clientConn, error) {
	if set := cc.ready.Load(); set != nil {
		if len(set.conns) == 1 {
			return set.conns[0], nil
		}
		return set.conns[int(set.next.Add(1))%len(set.conns)], nil
	}
	return cc.pickSlow(ctx, ci)
}

func (cc *ClientConn) pickSlow(ctx context.Context, ci *callInfo) (*clientConn, error) {
	for {
		cc.mu.Lock()
		if cc.state == connectivity.Shutdown {
			cc.mu.Unlock()
			return nil, ErrClientConnClosing
		}
		if set := cc.ready.Load(); set != nil {
			cc.mu.Unlock()
			return set.conns[int(set.next.Add(1))%len(set.conns)], nil
		}
		cc.activate()
		state, changed, last := cc.state, cc.changed.next(), cc.lastErr
		cc.mu.Unlock()
		if state == connectivity.TransientFailure && !ci.waitForReady {
			return nil, status.Error(codes.Unavailable, unreachable(last))
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, cc.waitedInVain(ctx, last)
		}
	}
}

func (cc *ClientConn) waitedInVain(ctx context.Context, last error) error {
	st := status.FromContextError(ctx.Err())
	if last == nil {
		return st.Err()
	}
	return status.Errorf(st.Code(), "%s while waiting for connections to become ready: last error: %v", st.Message(), last)
}

func unreachable(err error) string {
	if err == nil {
		return "rpc: no connection to the server"
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return fmt.Sprintf("name resolver error: %v", err)
	}
	return strings.TrimSpace(fmt.Sprintf("connection error: desc = %q", err.Error()))
}
