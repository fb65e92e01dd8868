package rpc

import (
	"context"

	"github.com/tarn-go/tarn/rpc/internal/balance"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/resolver"
)

// channelOwner is a client as its balance.Channel sees it.
type channelOwner ClientConn

var (
	_ balance.Owner = (*channelOwner)(nil)
	_ balance.Conn  = (*clientConn)(nil)
)

// Settings implements balance.Owner.
func (co *channelOwner) Settings() balance.Settings {
	o := &co.opts
	b := co.builder
	if o.dialer == nil && !o.noProxy && !o.localDNS && co.target.URL.Scheme == "dns" {
		b = proxiedNames{b}
	}
	health := balance.HealthChecksOn
	if o.noHealthCheck {
		health = balance.HealthChecksOff
	}
	return balance.Settings{
		Builder: b,
		Resolver: resolver.BuildOptions{DisableServiceConfig: o.noResolverConfig, DialCreds: o.creds, CredsBundle: o.bundle,
			Dialer: o.dialer, Authority: co.authority, MetricsRecorder: co.metrics.Recorder()},
		Balancer: balancer.BuildOptions{DialCreds: o.creds, CredsBundle: o.bundle, Dialer: o.dialer,
			Authority: co.authority, CustomUserAgent: o.userAgent + userAgent, Target: co.target},
		Fallback: co.fallback, Metrics: co.metrics,
		IdleTimeout: o.idleTimeout, Connect: o.connect.Backoff, MinConnect: o.minConnectTimeout(), Health: health,
	}
}

// Parse implements balance.Owner.
func (co *channelOwner) Parse(text string) (*balance.Config, error) {
	return parseServiceConfig(text, balance.Lenient)
}

// Select implements balance.Owner.
func (co *channelOwner) Select(c *balance.Config, s *resolver.State) *balance.Config {
	return selecting(c, s)
}

// Connect implements balance.Owner.
func (co *channelOwner) Connect(ctx context.Context, stop <-chan struct{}, s *balance.SubConn, addr *resolver.Address) (balance.Conn, error) {
	c, err := (*ClientConn)(co).connect(ctx, stop, s, addr)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Begin implements balance.Owner.
func (co *channelOwner) Begin() bool { return co.conns.begin() }

// Done implements balance.Owner.
func (co *channelOwner) Done() { co.conns.wg.Done() }

// Streams implements balance.Owner.
func (co *channelOwner) Streams() int { return int(co.maker.Stats().Waiting) + co.conns.streams() }
