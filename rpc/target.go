package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/tarn-go/tarn/rpc/internal/grpcgo"
	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
)

// ErrTarget is wrapped by every error for an invalid target.
var ErrTarget = errors.New("rpc: bad target")

// findResolver parses a target and finds its resolver: WithResolvers' first, then package resolver's. A
// target without a scheme, or whose scheme has no resolver, as that of "name:port" has none, is dns, or what
// resolver.SetDefaultScheme says.
func findResolver(target string, o *dialOptions) (resolver.Target, resolver.Builder, error) {
	var none resolver.Target
	if target == "" {
		return none, nil, fmt.Errorf("%w: it is empty", ErrTarget)
	}
	u, err := url.Parse(target)
	if err == nil {
		b := o.resolver(u.Scheme)
		if b != nil || strings.Contains(target, "://") {
			if err := supported(u.Scheme, o); err != nil {
				return none, nil, err
			}
		}
		if b != nil {
			return checkTarget(resolver.Target{URL: *u}, b)
		}
		if strings.Contains(target, "://") && u.Scheme != "" {
			return none, nil, fmt.Errorf("%w: no resolver is registered for the scheme of %q", ErrTarget, target)
		}
	}
	scheme := defaultScheme()
	if u, err = url.Parse(scheme + ":///" + target); err != nil {
		return none, nil, fmt.Errorf("%w: %v", ErrTarget, err)
	}
	b := o.resolver(scheme)
	if b == nil {
		return none, nil, fmt.Errorf("%w: no resolver is registered for the default scheme %q", ErrTarget, scheme)
	}
	return checkTarget(resolver.Target{URL: *u}, b)
}

// defaultScheme is the scheme of targets that have none: grpc.NewClient's, so dns, or what the program has given to
// resolver.SetDefaultScheme. GetDefaultScheme does not tell a program that has set passthrough from one that has set nothing. The error for
// a target that no scheme makes a URL of does.
func defaultScheme() string {
	if s := resolver.GetDefaultScheme(); s != "passthrough" {
		return s
	}
	_, err := grpc.NewClient("%")
	if err != nil && strings.Contains(err.Error(), "passthrough:///%") {
		return "passthrough"
	}
	return "dns"
}

// supported refuses the schemes whose resolvers in package resolver need more of a client than grpc-go's public interfaces: grpc-go's xDS
// resolver passes its routes in an internal attribute, which that of module rpc/xds translates.
func supported(scheme string, o *dialOptions) error {
	switch scheme {
	case "xds":
		if resolverOf(o.resolvers, scheme) == nil {
			return fmt.Errorf("%w: scheme xds needs WithResolvers(xds.NewResolver()), of module github.com/tarn-go/tarn/rpc/xds", ErrTarget)
		}
	case "google-c2p":
		if resolverOf(o.resolvers, scheme) == nil {
			return fmt.Errorf("%w: scheme google-c2p is not supported", ErrTarget)
		}
	}
	return nil
}

// checkTarget refuses an invalid dns or unix target before the first call does.
func checkTarget(t resolver.Target, b resolver.Builder) (resolver.Target, resolver.Builder, error) {
	end := t.Endpoint()
	switch b.Scheme() {
	case "dns":
		if end == "" {
			return t, nil, fmt.Errorf("%w: %q has no host", ErrTarget, t.URL.String())
		}
		if _, port, err := net.SplitHostPort(end); err == nil && port == "" {
			return t, nil, fmt.Errorf("%w: %q ends in a colon without a port", ErrTarget, end)
		}
	case "unix", "unix-abstract":
		if t.URL.Host != "" {
			return t, nil, fmt.Errorf("%w: %q has a host", ErrTarget, t.URL.String())
		}
		if end == "" {
			return t, nil, fmt.Errorf("%w: %q has no socket path", ErrTarget, t.URL.String())
		}
	}
	return t, b, nil
}

func (o *dialOptions) resolver(scheme string) resolver.Builder {
	if b := resolverOf(o.resolvers, scheme); b != nil {
		return b
	}
	switch scheme {
	case "":
		return nil
	case "unix", "unix-abstract":
		// grpc-go's own resolver marks its addresses with an attribute that only grpc-go can read.
		return unixResolver(scheme)
	}
	return resolver.Get(scheme)
}

// unixResolver resolves unix and unix-abstract targets. Its addresses begin with
// "unix:".
type unixResolver string

// Scheme implements resolver.Builder.
func (r unixResolver) Scheme() string { return string(r) }

// OverrideAuthority implements resolver.AuthorityOverrider.
func (unixResolver) OverrideAuthority(resolver.Target) string { return "localhost" }

// Build implements resolver.Builder.
func (r unixResolver) Build(t resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	return oneAddress(cc, unixAddress(string(r), t))
}

// unixAddress is the address of a unix or unix-abstract target, with "unix:" in front, or "unix://" if the path is absolute:
// the dialer of WithContextDialer gets it, and grpc-go's gets these forms.
func unixAddress(scheme string, t resolver.Target) string {
	path := t.URL.Path // absolute
	if path == "" {
		path = t.URL.Opaque
	}
	if scheme == "unix-abstract" {
		path = "@" + strings.TrimPrefix(path, "/")
	}
	if strings.HasPrefix(path, "/") {
		return "unix://" + path
	}
	return "unix:" + path
}

func oneAddress(cc resolver.ClientConn, addr string) (resolver.Resolver, error) {
	a := resolver.Address{Addr: addr}
	// The balancer reports a failure to calls: nothing can be resolved again.
	_ = cc.UpdateState(resolver.State{Addresses: []resolver.Address{a},
		Endpoints: []resolver.Endpoint{{Addresses: []resolver.Address{a}}}})
	return fixedResolver{}, nil
}

// fixedResolver has nothing to resolve again.
type fixedResolver struct{}

// ResolveNow implements resolver.Resolver.
func (fixedResolver) ResolveNow(resolver.ResolveNowOptions) {}

// Close implements resolver.Resolver.
func (fixedResolver) Close() {}

// authorityOf is the default :authority and TLS server name: WithAuthority's, the
// credentials', the resolver's, the target's, in this order.
func authorityOf(t resolver.Target, b resolver.Builder, o *dialOptions) (string, error) {
	creds := ""
	if o.creds != nil {
		creds = o.creds.Info().ServerName
	}
	switch {
	case o.authority != "" && creds != "" && o.authority != creds:
		return "", fmt.Errorf("%w: the authority of the caller's credentials is %q and that of WithAuthority is %q", ErrTarget, creds, o.authority)
	case o.authority != "":
		return o.authority, nil
	case creds != "":
		return creds, nil
	}
	if a, ok := b.(resolver.AuthorityOverrider); ok {
		return a.OverrideAuthority(t), nil
	}
	end := t.Endpoint()
	if strings.HasPrefix(end, ":") {
		end = "localhost" + end
	}
	return escapeAuthority(end), nil
}

// escapeAuthority escapes the characters that RFC 3986, section 3.2 does not allow.
func escapeAuthority(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-_.~!$&'()*+,;=:[]@", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(hex[c>>4])
		b.WriteByte(hex[c&15])
	}
	return b.String()
}

// serverName is the name that a connection to addr is verified for. WithAuthority takes precedence over the
// resolver's name, which is less trustworthy.
func (cc *ClientConn) serverName(addr *resolver.Address) string {
	if cc.opts.authority == "" && addr.ServerName != "" {
		return addr.ServerName
	}
	return cc.authority
}

// dial opens a network connection to an address of the resolver's.
func (cc *ClientConn) dial(ctx context.Context, addr *resolver.Address) (net.Conn, error) {
	if f := cc.opts.dialer; f != nil {
		return f(ctx, addr.Addr)
	}
	if p, ok := grpcgo.ProxyOf(addr); ok {
		return cc.dialThrough(ctx, addr.Addr, p)
	}
	network, address := networkOf(addr.Addr)
	// As in grpc-go, the proxy of the environment is not for endpoints that a control plane names.
	if network == "tcp" && !cc.opts.noProxy && cc.target.URL.Scheme != "xds" {
		return cc.dialProxied(ctx, address)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// networkOf splits an address as net.Dial takes it: "unix:path" and
// "unix:///path" are sockets.
func networkOf(addr string) (network, address string) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return "unix", strings.TrimPrefix(path, "//")
	}
	return "tcp", addr
}
