package opentelemetry

import (
	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc/grpclog"
	grpcotel "google.golang.org/grpc/stats/opentelemetry"
)

// scope is the name of the meter and the tracer, which are grpc-go's.
const scope = "grpc-go"

var logger = grpclog.Component("otel-plugin")

// DialOption records a client's calls and connections. Without a MeterProvider no metrics are recorded,
// without a TracerProvider no spans. An instrument that the MeterProvider refuses is logged (grpclog) and
// not recorded.
func DialOption(o grpcotel.Options) rpc.DialOption {
	var opts []rpc.DialOption
	if o.MetricsOptions.MeterProvider != nil {
		m := newClientMetrics(o.MetricsOptions)
		opts = append(opts, rpc.WithChainUnaryInterceptor(m.unary), rpc.WithChainStreamInterceptor(m.stream), rpc.WithStatsHandler(m))
	}
	if o.TraceOptions.TracerProvider != nil {
		t := newClientTraces(o.TraceOptions)
		opts = append(opts, rpc.WithChainUnaryInterceptor(t.unary), rpc.WithChainStreamInterceptor(t.stream), rpc.WithStatsHandler(t))
	}
	return rpc.JoinDialOptions(opts...)
}

// ServerOption records a server's calls. Without a MeterProvider no metrics are recorded, without a
// TracerProvider no spans. An instrument that the MeterProvider refuses is logged (grpclog) and not
// recorded.
func ServerOption(o grpcotel.Options) rpc.ServerOption {
	var opts []rpc.ServerOption
	if o.MetricsOptions.MeterProvider != nil {
		opts = append(opts, rpc.StatsHandler(newServerMetrics(o.MetricsOptions)))
	}
	if o.TraceOptions.TracerProvider != nil {
		opts = append(opts, rpc.StatsHandler(newServerTraces(o)))
	}
	return rpc.JoinServerOptions(opts...)
}
