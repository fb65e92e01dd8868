package grpcgo

import (
	"context"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/credentials"
	estats "google.golang.org/grpc/experimental/stats"
	"google.golang.org/grpc/resolver"
)

const (
	recorderScheme   = "tarn-rpc-recorder"
	recorderBalancer = "tarn_rpc_recorder"
)

var errNeverDials = errors.New("rpc: this ClientConn opens no connections")

// Recorder takes the recorder of metrics out of a stock ClientConn with the stats handlers among opts, which is closed before it has connected:
// grpc-go hands it to the ClientConn's balancer. It is grpc-go's because estats.MetricsRecorder gains methods with grpc-go's versions, with
// argument types that older versions do not have.
func Recorder(opts []grpc.DialOption) (estats.MetricsRecorder, error) {
	p := &recorderProbe{found: make(chan estats.MetricsRecorder, 1)}
	conn, err := grpc.NewClient(recorderScheme+":///", append(opts,
		grpc.WithTransportCredentials(p),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return nil, errNeverDials }),
		grpc.WithResolvers(recorderResolver{}),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"`+recorderBalancer+`":{}}]}`),
		grpc.WithDisableHealthCheck(),
		grpc.WithIdleTimeout(0),
	)...)
	if err != nil {
		return nil, fmt.Errorf("rpc: grpc-go makes no recorder of metrics: %w", err)
	}
	defer conn.Close()
	conn.Connect()
	return <-p.found, nil
}

// recorderProbe receives the recorder of the stock ClientConn that it is the credentials of.
type recorderProbe struct {
	found chan estats.MetricsRecorder
}

// ClientHandshake implements credentials.TransportCredentials: it refuses.
func (*recorderProbe) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errNeverDials
}

// ServerHandshake implements credentials.TransportCredentials: it refuses.
func (*recorderProbe) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.ErrUnsupported
}

// Info implements credentials.TransportCredentials.
func (*recorderProbe) Info() credentials.ProtocolInfo { return credentials.ProtocolInfo{} }

// Clone implements credentials.TransportCredentials.
func (p *recorderProbe) Clone() credentials.TransportCredentials { return p }

// OverrideServerName implements credentials.TransportCredentials.
func (*recorderProbe) OverrideServerName(string) error { return errors.ErrUnsupported }

// recorderResolver resolves to an address that is never dialled.
type recorderResolver struct{}

// Scheme implements resolver.Builder.
func (recorderResolver) Scheme() string { return recorderScheme }

// Build implements resolver.Builder.
func (r recorderResolver) Build(_ resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	a := resolver.Address{Addr: "of a client of package rpc"}
	return r, cc.UpdateState(resolver.State{Addresses: []resolver.Address{a}, Endpoints: []resolver.Endpoint{{Addresses: []resolver.Address{a}}}})
}

// ResolveNow implements resolver.Resolver.
func (recorderResolver) ResolveNow(resolver.ResolveNowOptions) {}

// Close implements resolver.Resolver.
func (recorderResolver) Close() {}

// _ registers the balancer: grpc-go finds balancers by name, in a registry that is filled while a program starts.
var _ = registerRecorder()

func registerRecorder() string {
	balancer.Register(recorderBuilder{})
	return recorderBalancer
}

// recorderBuilder makes the balancer of a stock ClientConn.
type recorderBuilder struct{}

// Name implements balancer.Builder.
func (recorderBuilder) Name() string { return recorderBalancer }

// Build implements balancer.Builder.
func (recorderBuilder) Build(cc balancer.ClientConn, opts balancer.BuildOptions) balancer.Balancer {
	if p, ok := opts.DialCreds.(*recorderProbe); ok {
		p.found <- cc.MetricsRecorder()
	}
	return noBalancer{}
}

// noBalancer does nothing.
type noBalancer struct{}

func (noBalancer) UpdateClientConnState(balancer.ClientConnState) error       { return nil }
func (noBalancer) ResolverError(error)                                        {}
func (noBalancer) UpdateSubConnState(balancer.SubConn, balancer.SubConnState) {}
func (noBalancer) Close()                                                     {}
func (noBalancer) ExitIdle()                                                  {}
