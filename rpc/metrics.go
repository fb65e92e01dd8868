package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	estats "google.golang.org/grpc/experimental/stats"
)

// recordMetrics finds what resolvers, balancers and connections record metrics with: grpc-go's own recorder,
// which passes them on to the handlers that implement estats.MetricsRecorder. It is grpc-go's because that
// interface gains methods with grpc-go's versions, with argument types that older versions do not have.
func (cc *ClientConn) recordMetrics() (err error) {
	var to []grpc.DialOption
	for _, h := range cc.opts.stats {
		if _, ok := h.(estats.MetricsRecorder); ok {
			to = append(to, grpc.WithStatsHandler(h))
		}
	}
	if len(to) == 0 {
		cc.recorder, err = noRecorder()
		return err
	}
	if cc.recorder, err = stockRecorder(to); err == nil {
		cc.metrics = newSubchannelMetrics(cc.recorder, cc.name)
	}
	return err
}

// noRecorder returns the recorder of clients without a handler that records metrics.
var noRecorder = sync.OnceValues(func() (estats.MetricsRecorder, error) { return stockRecorder(nil) })

// stockRecorder takes the recorder out of a stock ClientConn, which is closed before it has connected.
// grpc-go hands it to the ClientConn's balancer (see mirror).
func stockRecorder(handlers []grpc.DialOption) (estats.MetricsRecorder, error) {
	p := &recorderProbe{found: make(chan estats.MetricsRecorder, 1)}
	conn, err := grpc.NewClient(recorderScheme+":///", append(handlers,
		grpc.WithTransportCredentials(p),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return nil, errNeverDials }),
		grpc.WithResolvers(&stubResolver{scheme: recorderScheme}),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultServiceConfig(mirrorConfig),
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

const recorderScheme = "tarn-rpc-recorder"

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
