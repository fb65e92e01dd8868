package opentelemetry_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	grpcotel "google.golang.org/grpc/stats/opentelemetry"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/rpc/opentelemetry"
)

// The options are grpc-go's, and so are the names of the metrics.
func Example() {
	reader := metric.NewManualReader() // a real program: a reader that exports
	options := grpcotel.Options{MetricsOptions: grpcotel.MetricsOptions{
		MeterProvider: metric.NewMeterProvider(metric.WithReader(reader)),
	}}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	s := rpc.NewServer(opentelemetry.ServerOption(options))
	healthpb.RegisterHealthServer(s, health.NewServer())
	go s.Serve(lis)
	cc, err := rpc.NewClient(lis.Addr().String(), opentelemetry.DialOption(options),
		rpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	if _, err := healthpb.NewHealthClient(cc).Check(ctx, &healthpb.HealthCheckRequest{}); err != nil {
		log.Fatal(err)
	}
	cc.Close()
	s.GracefulStop()

	var recorded metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &recorded); err != nil {
		log.Fatal(err)
	}
	for _, scope := range recorded.ScopeMetrics {
		for _, m := range scope.Metrics {
			if h, ok := m.Data.(metricdata.Histogram[float64]); ok {
				fmt.Println(m.Name, h.DataPoints[0].Count)
			}
		}
	}
	// Unordered output:
	// grpc.client.attempt.duration 1
	// grpc.client.call.duration 1
	// grpc.server.call.duration 1
}
