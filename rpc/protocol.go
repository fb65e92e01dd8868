package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/tarn-go/tarn/h2"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/resolver"
)

// Protocol is a client's protocol.
type Protocol uint8

const (
	// GRPC is gRPC over HTTP/2, the default.
	GRPC Protocol = iota
	// GRPCWeb is gRPC-Web in its binary form
	// (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-WEB.md).
	GRPCWeb
	// Connect is the Connect protocol (https://connectrpc.com/docs/protocol).
	Connect
)

// String is the protocol's name.
func (p Protocol) String() string {
	switch p {
	case GRPC:
		return "gRPC"
	case GRPCWeb:
		return "gRPC-Web"
	case Connect:
		return "Connect"
	}
	return fmt.Sprintf("Protocol(%d)", uint8(p))
}

// ErrProtocol is wrapped by NewClient's errors for options that the protocol of [WithProtocol] does not
// support.
var ErrProtocol = errors.New("rpc: an option does not go with the client's protocol")

// WithProtocol makes the client use another protocol than gRPC, for proxies that allow nothing else. Stubs,
// interceptors, statistics, call options, compressors, limits, deadlines, metadata, status details, retries and hedging work as with gRPC,
// with one difference: the header of a response says nothing of the call's status in Connect, and often not in gRPC-Web. So an attempt is
// tried again until its first message has come, or Header of its stream has returned a header.
//
// The target is dns:///name:port, plain name:port, passthrough:///address, a Unix socket, or a URL,
// "https://host/prefix", whose path precedes those of methods. The server balances the load: resolvers,
// balancers and health checks of the client are refused with [ErrProtocol], and so are [WithChannelz] and the static window
// sizes. The client's state is READY until Close.
//
// Over TLS, ALPN selects HTTP/2 or HTTP/1.1. grpc's credentials offer "h2" alone, unless their tls.Config's
// NextProtos include "http/1.1". Without TLS the client uses HTTP/1.1; for HTTP/2, pass an h2http.Transport
// to [WithRoundTripper]. A bidirectional stream needs HTTP/2 and fails with UNIMPLEMENTED over HTTP/1.1.
// Keepalive and window sizes apply to HTTP/2. The JSON codec, grpc.CallContentSubtype("json"), need not be
// registered. grpc.CallAuthority fails the call. Statistics handlers are called for calls and not for
// connections; [ClientConn.TransportStats] counts nothing; [WithLogger] and
// [WithUnannouncedHeaderListSize] are refused.
func WithProtocol(p Protocol) DialOption { return dialOption(func(o *dialOptions) { o.protocol = p }) }

// WithRoundTripper sends the requests of a client of [WithProtocol] with rt, which then makes the
// connections: the target must be a URL, and options for connections and transport credentials are refused
// with [ErrProtocol]. rt must not decompress responses unless it asked for compression, follow redirects, or
// keep a request's body after closing it. Close of the client leaves rt open. Neither calls nor Close wait for an rt or a response's body that
// ignores its context; one that is not an *http.Transport or *h2http.Transport therefore runs on a goroutine of its own.
func WithRoundTripper(rt http.RoundTripper) DialOption {
	return dialOption(func(o *dialOptions) { o.roundTripper = rt })
}

// WithHTTPGet makes a client of the Connect protocol call unary methods whose
// idempotency_level is NO_SIDE_EFFECTS with GET, which caches and proxies may answer.
// Requests whose URL would be longer than 8 KiB are sent with POST. The method's
// descriptor must be linked in.
func WithHTTPGet() DialOption { return dialOption(func(o *dialOptions) { o.httpGet = true }) }

// webClient replaces the resolver, balancer and connections in a client of another protocol than gRPC.
type webClient struct {
	cc     *ClientConn
	speaks dialectMaker
	base   url.URL
	rt     http.RoundTripper
	conns  *webConns // nil with WithRoundTripper
	hidden *webConns // conns, or those of calls whose credentials need a private connection
	get    bool      // methods without side effects are called with GET
	closed context.Context
	close  context.CancelFunc
}

// configureWeb sets up a client of another protocol than gRPC.
func (cc *ClientConn) configureWeb() (err error) {
	o := &cc.opts
	w := &webClient{cc: cc, get: o.httpGet}
	switch o.protocol {
	case GRPCWeb:
		w.speaks = newWebFramesDialect
	case Connect:
		w.speaks = newConnectDialect
	default:
		return fmt.Errorf("%w: there is no protocol %v", ErrProtocol, o.protocol)
	}
	if err := o.refuseNames(); err != nil {
		return err
	}
	addr, err := w.target(cc.Target())
	if err != nil {
		return err
	}
	if o.roundTripper != nil {
		w.rt = o.roundTripper
	} else {
		w.conns = newWebConns(w, addr, credentials.NoSecurity)
		w.hidden = w.conns
		// Transport credentials of another type, such as grpc's local ones, do not encrypt every connection. The protocol that they
		// name does not say so: for those of xDS with insecure fallback it is "tls".
		if cc.scheme == "https" && reflect.TypeOf(o.creds) != reflect.TypeOf(credentials.NewTLS(nil)) {
			w.hidden = newWebConns(w, addr, credentials.PrivacyAndIntegrity)
		}
		w.rt = w.conns
	}
	if cc.fallback, err = defaultServiceConfig(o); err != nil {
		return err
	}
	if cc.maker, err = h2.Clients(o.h2()); err != nil {
		return err
	}
	cc.channel.Fix(cc.fallback)
	cc.accepts = acceptEncoding(o.acceptEncoding)
	if err := cc.sumOptions(); err != nil {
		return err
	}
	w.closed, w.close = context.WithCancel(context.Background())
	cc.web = w
	cc.intercept()
	return nil
}

// refuseNames refuses options that only a client of gRPC has, or only one without WithRoundTripper.
func (o *dialOptions) refuseNames() error {
	var cfg jsonConfig
	if o.serviceConfig != nil {
		// parseServiceConfig reports syntax errors.
		_ = json.Unmarshal([]byte(*o.serviceConfig), &cfg)
	}
	for _, no := range []struct {
		given bool
		what  string
	}{
		{len(o.resolvers) > 0, "WithResolvers"},
		{o.localDNS, "WithLocalDNSResolution"},
		{o.fixedWindow, "a static window size"},
		{o.channelz != nil, "WithChannelz"},
		{o.log != nil, "WithLogger"},
		{o.unannounced > 0, "WithUnannouncedHeaderListSize"},
		{cfg.Balancers != nil || cfg.Balancer != nil, "a load balancing policy in WithDefaultServiceConfig"},
		{cfg.Health != nil, "healthCheckConfig in WithDefaultServiceConfig"},
		{o.httpGet && o.protocol != Connect, "WithHTTPGet"},
		{o.roundTripper != nil && o.creds != nil, "transport credentials beside WithRoundTripper"},
		{o.roundTripper != nil && o.dialer != nil, "WithContextDialer beside WithRoundTripper"},
		{o.roundTripper != nil && o.noProxy, "WithNoProxy beside WithRoundTripper"},
		{o.roundTripper != nil && o.keepalive.Time > 0, "WithKeepaliveParams beside WithRoundTripper"},
		{o.roundTripper != nil && (o.window > 0 || o.connWindow > 0), "window sizes beside WithRoundTripper"},
		{o.roundTripper != nil && o.maxHeaderList > 0, "WithMaxHeaderListSize beside WithRoundTripper"},
		{o.roundTripper != nil && o.idleTimeout != defaultIdleTimeout, "WithIdleTimeout beside WithRoundTripper"},
	} {
		if no.given {
			return fmt.Errorf("%w: caller set %s, and the protocol is %v", ErrProtocol, no.what, o.protocol)
		}
	}
	if o.roundTripper == nil && o.creds == nil {
		return ErrNoTransportSecurity
	}
	return nil
}

// target parses the URL or target, and returns the address to connect to.
func (w *webClient) target(name string) (addr string, err error) {
	cc, o := w.cc, &w.cc.opts
	if u, perr := url.Parse(name); perr == nil && (u.Scheme == "http" || u.Scheme == "https") {
		if u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			return "", fmt.Errorf("%w: %q must have a host and no user, query or fragment", ErrTarget, name)
		}
		cc.target, cc.scheme, cc.authority = resolver.Target{URL: *u}, u.Scheme, u.Host
		if o.authority != "" {
			cc.authority = o.authority
		}
		w.base = url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimSuffix(u.Path, "/")}
		if addr = u.Host; u.Port() == "" {
			addr += map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
		}
		return addr, w.security()
	}
	if o.roundTripper != nil {
		return "", fmt.Errorf("%w: WithRoundTripper needs a URL, not %q", ErrTarget, name)
	}
	var b resolver.Builder
	if cc.target, b, err = findResolver(name, o); err != nil {
		return "", err
	}
	if cc.authority, err = authorityOf(cc.target, b, o); err != nil {
		return "", err
	}
	switch scheme := b.Scheme(); {
	case !slices.Contains([]string{"dns", "passthrough", "unix", "unix-abstract"}, scheme) || cc.target.URL.Host != "":
		return "", fmt.Errorf("%w: a resolver (of target %q), and the protocol is %v", ErrProtocol, name, o.protocol)
	case scheme == "unix" || scheme == "unix-abstract":
		addr = unixAddress(scheme, cc.target)
	default:
		addr = withPort(cc.target.Endpoint())
	}
	cc.scheme = "https"
	if o.creds.Info().SecurityProtocol == "insecure" {
		cc.scheme = "http"
	}
	w.base = url.URL{Scheme: cc.scheme, Host: cc.authority}
	return addr, w.security()
}

// security checks that the target's scheme and the credentials agree.
func (w *webClient) security() error {
	o := &w.cc.opts
	if o.creds != nil && (w.cc.scheme == "http") != (o.creds.Info().SecurityProtocol == "insecure") {
		return fmt.Errorf("%w: the target's scheme is %s and the credentials are of type %q", ErrTarget, w.cc.scheme, o.creds.Info().SecurityProtocol)
	}
	if w.cc.scheme == "https" {
		return nil
	}
	for _, c := range o.perRPC {
		if c.RequireTransportSecurity() {
			return ErrCredentialsNeedSecurity
		}
	}
	return nil
}

// promised is the AuthInfo of a connection as the target's scheme promises it.
func (w *webClient) promised() credentials.AuthInfo {
	level := credentials.NoSecurity
	if w.cc.scheme == "https" {
		level = credentials.PrivacyAndIntegrity
	}
	return credentials.TLSInfo{CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: level}}
}
