package rpc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/balance"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
)

var (
	// ErrNoTransportSecurity is returned by NewClient without
	// WithTransportCredentials.
	ErrNoTransportSecurity = errors.New("rpc: caller set no transport credentials (use WithTransportCredentials, with insecure.NewCredentials for plaintext)")
	// ErrCredentials is wrapped by NewClient's errors about credentials that contradict
	// each other.
	ErrCredentials = errors.New("rpc: bad credentials")
	// ErrCredentialsNeedSecurity is returned by NewClient when credentials that
	// demand a secure connection were given for an insecure one.
	ErrCredentialsNeedSecurity = errors.New("rpc: caller's per-RPC credentials require transport security")
	// ErrClientConnClosing is the error of calls of a closed client: CANCELLED.
	ErrClientConnClosing = balance.ErrClosing
)

// ClientConn is a client of one target: a grpc.ClientConnInterface. A resolver
// finds the target's addresses and a balancer spreads calls over them; both are
// grpc-go's or written for its plugin interfaces. Its methods are safe for
// concurrent use.
type ClientConn struct {
	opts      dialOptions
	target    resolver.Target
	builder   resolver.Builder
	authority string
	scheme    string // of the target, with another protocol than gRPC; otherwise what the transport credentials make :scheme
	accepts   string
	defaults  optionSum  // the default call options
	none      *optionSum // no options; defaults, if there are none
	around    interceptors
	routes    routes
	maker     *h2.Maker
	pinging   pinging
	attempts  attempts
	wakeUps   wakeUps
	facade    facade
	web       *webClient       // not nil: the protocol is not gRPC
	fallback  *balance.Config  // used when the resolver has none
	metrics   *balance.Metrics // nil with another protocol than gRPC

	channel balance.Channel // names, picks and state
	conns   connections
}

var _ grpc.ClientConnInterface = (*ClientConn)(nil)

// NewClient makes a client of target: dns:///name:port, plain name:port,
// passthrough:///address, unix:path, unix-abstract:name, or a name whose scheme has
// a resolver in [WithResolvers] or in grpc's package resolver. It connects on the
// first call or on Connect. Close it in the end. Every error is the caller's.
func NewClient(target string, opts ...DialOption) (*ClientConn, error) {
	o := defaultDialOptions()
	for _, opt := range opts {
		opt.apply(&o)
	}
	cc := &ClientConn{opts: o}
	cc.channel.Init((*channelOwner)(cc), target)
	if err := cc.configure(); err != nil {
		return nil, err
	}
	cc.channel.List(o.channelz.Entities().AddChannel(cc.target.String()))
	return cc, nil
}

func (cc *ClientConn) configure() (err error) {
	o := &cc.opts
	if err = o.useBundle(); err != nil {
		return err
	}
	if err = checkPolicies(o.retry, o.hedging); err != nil {
		return fmt.Errorf("%w: caller set %w", ErrServiceConfig, err)
	}
	if o.protocol != GRPC {
		return cc.configureWeb()
	}
	if o.roundTripper != nil || o.httpGet {
		return fmt.Errorf("%w: caller set WithRoundTripper or WithHTTPGet, and the protocol is gRPC", ErrProtocol)
	}
	if cc.target, cc.builder, err = findResolver(cc.Target(), o); err != nil {
		return err
	}
	if o.creds == nil {
		return ErrNoTransportSecurity
	}
	cc.scheme = schemeOf(o.creds)
	if o.creds.Info().SecurityProtocol == "insecure" {
		for _, c := range o.perRPC {
			if c.RequireTransportSecurity() {
				return ErrCredentialsNeedSecurity
			}
		}
	}
	if cc.authority, err = authorityOf(cc.target, cc.builder, o); err != nil {
		return err
	}
	if cc.fallback, err = defaultServiceConfig(o); err != nil {
		return err
	}
	if cc.maker, err = h2.Clients(o.h2()); err != nil {
		return err
	}
	if err = cc.recordMetrics(); err != nil {
		return err
	}
	cc.accepts = acceptEncoding(o.acceptEncoding)
	if err := cc.sumOptions(); err != nil {
		return err
	}
	cc.intercept()
	return nil
}

// h2 translates the options to a connection's configuration.
func (o *dialOptions) h2() h2.Config {
	cfg := h2.Config{Pool: o.pool, Log: o.log, MaxHeaderList: o.maxHeaderList, Window: o.window, ConnWindow: o.connWindow,
		Unread: unreadByCallers}
	if o.fixedWindow {
		fixWindow(&cfg)
	}
	if o.keepalive.Time > 0 {
		cfg.Keepalive = h2.Keepalive{Time: max(o.keepalive.Time, minKeepalive), Timeout: o.keepalive.Timeout}
		if o.keepalive.PermitWithoutStream {
			cfg.Keepalive.WithoutStream = h2.Permit
		}
	}
	cfg.Policy.MinTime = -1 // clients do not limit servers' pings
	return cfg
}

const minKeepalive = 10 * time.Second

// unreadByCallers is unreadMost of a client, whose program decides itself how many streams it leaves unread, as h2http's and net/http's: with less
// they hold up the connection's other calls. grpc-go has no such bound.
const unreadByCallers = 1 << 30

// Target is the argument of NewClient.
func (cc *ClientConn) Target() string { return cc.channel.Target() }

// CanonicalTarget is the target with its scheme and authority, as
// "scheme://[authority]/endpoint".
func (cc *ClientConn) CanonicalTarget() string { return cc.target.String() }

// GetState is the connectivity state.
func (cc *ClientConn) GetState() connectivity.State { return cc.channel.State() }

// WaitForStateChange returns true when the state is no longer source, false when
// ctx ends first.
func (cc *ClientConn) WaitForStateChange(ctx context.Context, source connectivity.State) bool {
	return cc.channel.WaitForState(ctx, source)
}

// Connect leaves IDLE without a call. It waits until the resolver has been built, as in grpc-go, and not for its addresses or a connection.
func (cc *ClientConn) Connect() {
	if cc.web == nil {
		cc.channel.Connect()
	}
}

// ResetConnectBackoff makes waiting attempts to connect go ahead at once.
func (cc *ClientConn) ResetConnectBackoff() {
	cc.channel.ResetBackoff()
}

// Close ends all connections and calls, and returns when the connections' goroutines have ended. It does not wait for calls, nor for a dialer,
// a handshake or a round tripper that ignores its context, so that functions of the application's that a call runs may call it. A second
// Close returns ErrClientConnClosing.
func (cc *ClientConn) Close() error {
	var conns []*clientConn
	if err := cc.channel.Close(func() { conns = cc.conns.close() }); err != nil {
		return err
	}
	for _, c := range conns {
		c.h2c.Close()
	}
	if cc.web != nil {
		cc.web.close() // ends the calls
	}
	cc.conns.wg.Wait()
	cc.channel.Entity().Remove()
	if cc.web != nil && cc.web.conns != nil {
		cc.web.conns.close()
		cc.web.hidden.close()
	}
	return cc.facade.close()
}
