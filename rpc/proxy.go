package rpc

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/tarn-go/tarn/rpc/internal/grpcgo"
	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
)

// proxyFor is the proxy that the environment names for an address (HTTPS_PROXY and
// NO_PROXY, as http.ProxyFromEnvironment reads them once); nil for none.
func proxyFor(address string) (*url.URL, error) {
	return http.ProxyFromEnvironment(&http.Request{URL: &url.URL{Scheme: "https", Host: address}})
}

// proxiedNames resolves a dns target for which there is a proxy to its own name: the proxy looks it up.
type proxiedNames struct{ resolver.Builder }

// Build implements resolver.Builder.
func (p proxiedNames) Build(t resolver.Target, cc resolver.ClientConn, opts resolver.BuildOptions) (resolver.Resolver, error) {
	addr := withPort(t.Endpoint())
	proxy, err := proxyFor(addr)
	if err != nil {
		return nil, fmt.Errorf("rpc: the environment names a proxy for %q that cannot be read: %w", addr, err)
	}
	if proxy == nil {
		return p.Builder.Build(t, cc, opts)
	}
	return oneAddress(cc, addr)
}

// withPort completes the endpoint of a dns target: the default port is 443, the default host this machine.
func withPort(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	switch {
	case err != nil:
		return net.JoinHostPort(addr, "443")
	case host == "":
		return net.JoinHostPort("localhost", port)
	}
	return addr
}

// dialProxied connects to address, through the proxy that the environment names.
func (cc *ClientConn) dialProxied(ctx context.Context, address string) (net.Conn, error) {
	proxy, err := proxyFor(address)
	if err != nil {
		return nil, fmt.Errorf("the environment names a proxy that cannot be read: %w", err)
	}
	if proxy == nil {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}
	return cc.tunnel(ctx, proxyAddress(proxy), proxy.Host, proxy.User, address)
}

// dialThrough connects through the proxy at address, which the endpoint's control plane names (gRFC A86).
func (cc *ClientConn) dialThrough(ctx context.Context, address string, p grpcgo.Proxied) (net.Conn, error) {
	if p.To == "" {
		return nil, fmt.Errorf("grpc-go %s: what the proxy %s is to connect to cannot be read", grpc.Version, address)
	}
	return cc.tunnel(ctx, address, address, p.User, p.To)
}

// tunnel connects to address through the proxy at the address through, which errors call name.
func (cc *ClientConn) tunnel(ctx context.Context, through, name string, user *url.Userinfo, address string) (net.Conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", through)
	if err != nil {
		return nil, fmt.Errorf("proxy %s: %w", name, err)
	}
	tunnel, err := connectThrough(ctx, nc, user, address, cc.opts.userAgent+userAgent)
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("proxy %s: %w", name, err)
	}
	return tunnel, nil
}

func proxyAddress(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	if u.Scheme == "http" {
		return net.JoinHostPort(u.Hostname(), "80")
	}
	return net.JoinHostPort(u.Hostname(), "443")
}

// connectThrough sends CONNECT on nc (RFC 9110, section 9.3.6) and returns the
// tunnel. nc stays the caller's to close on an error.
func connectThrough(ctx context.Context, nc net.Conn, user *url.Userinfo, address, agent string) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { nc.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Host: address}, Header: http.Header{"User-Agent": {agent}}}
	if user != nil {
		password, _ := user.Password()
		req.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	if err := req.Write(nc); err != nil {
		return nil, fmt.Errorf("sending CONNECT: %w", err)
	}
	r := bufio.NewReaderSize(nc, 4<<10)
	resp, err := http.ReadResponse(r, req)
	if err != nil {
		return nil, fmt.Errorf("reading the answer to CONNECT: %w", err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answered CONNECT with %q", resp.Status)
	}
	if !stop() {
		return nil, ctx.Err()
	}
	if r.Buffered() == 0 {
		return nc, nil
	}
	return &readAhead{nc, r}, nil
}

// readAhead is a connection whose first bytes have been read already: those that a server sends before the
// client.
type readAhead struct {
	net.Conn
	r *bufio.Reader
}

// Read implements net.Conn.
func (c *readAhead) Read(p []byte) (int, error) { return c.r.Read(p) }
