// Package resolve reads gRPC target names and turns them into addresses:
// dns:///host:port, passthrough:///anything, unix:path, unix:///path,
// unix-abstract:name and plain host:port (which is dns).
package resolve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// ErrTarget is wrapped by every error about a target nobody can dial. It is
// the caller's fault.
var ErrTarget = errors.New("rpc: bad target")

// defaultPort is what a dns target without a port means.
const defaultPort = "443"

// Target is where a client connects.
type Target struct {
	scheme   scheme
	server   string // DNS server of dns://server/name; empty: the system's
	endpoint string
}

type scheme uint8

const (
	dns scheme = iota
	passthrough
	unix
	unixAbstract
)

// Addr is one address of a target.
type Addr struct {
	Network string // "tcp" or "unix"
	Address string // as net.Dial takes it
}

// Parse reads a target. A name without a known scheme is dns, as in grpc-go.
func Parse(target string) (Target, error) {
	switch {
	case target == "":
		return Target{}, fmt.Errorf("%w: it is empty", ErrTarget)
	case strings.HasPrefix(target, "unix-abstract:"):
		name := strings.TrimPrefix(target, "unix-abstract:")
		name = strings.TrimPrefix(name, "///")
		if name == "" {
			return Target{}, fmt.Errorf("%w: %q names no socket", ErrTarget, target)
		}
		return Target{scheme: unixAbstract, endpoint: name}, nil
	case strings.HasPrefix(target, "unix:"):
		path := strings.TrimPrefix(target, "unix:")
		if strings.HasPrefix(path, "//") {
			path = path[2:]
			if !strings.HasPrefix(path, "/") {
				return Target{}, fmt.Errorf("%w: %q has a host", ErrTarget, target)
			}
		}
		if path == "" {
			return Target{}, fmt.Errorf("%w: %q names no socket", ErrTarget, target)
		}
		return Target{scheme: unix, endpoint: path}, nil
	case strings.HasPrefix(target, "dns:"), strings.HasPrefix(target, "passthrough:"):
		return parseURL(target)
	}
	if u, err := url.Parse(target); err == nil && strings.Contains(target, "://") && u.Scheme != "" {
		return Target{}, fmt.Errorf("%w: scheme %q is not one of dns, passthrough, unix, unix-abstract", ErrTarget, u.Scheme)
	}
	return dnsTarget("", target)
}

func parseURL(target string) (Target, error) {
	name, rest, _ := strings.Cut(target, ":")
	server := ""
	if strings.HasPrefix(rest, "//") {
		var ok bool
		if server, rest, ok = strings.Cut(rest[2:], "/"); !ok {
			return Target{}, fmt.Errorf("%w: %q has no endpoint", ErrTarget, target)
		}
	}
	if name == "passthrough" {
		return Target{scheme: passthrough, endpoint: rest}, nil
	}
	return dnsTarget(server, rest)
}

func dnsTarget(server, hostport string) (Target, error) {
	if hostport == "" {
		return Target{}, fmt.Errorf("%w: it names no host", ErrTarget)
	}
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		// No port, or an IPv6 address without brackets.
		host, port = strings.Trim(hostport, "[]"), defaultPort
		if strings.Contains(host, ":") && net.ParseIP(host) == nil {
			return Target{}, fmt.Errorf("%w: %q: %v", ErrTarget, hostport, err)
		}
	}
	if port == "" {
		return Target{}, fmt.Errorf("%w: %q ends in a colon without a port", ErrTarget, hostport)
	}
	if host == "" {
		host = "localhost"
	}
	return Target{scheme: dns, server: server, endpoint: net.JoinHostPort(host, port)}, nil
}

// Authority is the default :authority and TLS server name of the target.
func (t Target) Authority() string {
	if t.scheme == unix || t.scheme == unixAbstract {
		return "localhost"
	}
	return t.endpoint
}

// Resolve gives the addresses, at least one without an error. Only dns targets
// ask the network.
func (t Target) Resolve(ctx context.Context) ([]Addr, error) {
	switch t.scheme {
	case passthrough:
		return []Addr{{"tcp", t.endpoint}}, nil
	case unix:
		return []Addr{{"unix", t.endpoint}}, nil
	case unixAbstract:
		return []Addr{{"unix", "@" + t.endpoint}}, nil
	}
	host, port, err := net.SplitHostPort(t.endpoint)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrTarget, err)
	}
	if ip := net.ParseIP(strings.SplitN(host, "%", 2)[0]); ip != nil {
		return []Addr{{"tcp", t.endpoint}}, nil
	}
	ips, err := t.resolver().LookupHost(ctx, host)
	if err != nil {
		return nil, err
	}
	out := make([]Addr, len(ips))
	for i, ip := range ips {
		out[i] = Addr{"tcp", net.JoinHostPort(ip, port)}
	}
	return out, nil
}

// Changing says whether another Resolve may give another answer.
func (t Target) Changing() bool { return t.scheme == dns }

func (t Target) resolver() *net.Resolver {
	if t.server == "" {
		return net.DefaultResolver
	}
	server := t.server
	if _, _, err := net.SplitHostPort(server); err != nil {
		server = net.JoinHostPort(server, "53")
	}
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server)
	}}
}
