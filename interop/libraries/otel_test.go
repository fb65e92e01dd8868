package libraries

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
)

// echo answers with as many bytes as it is asked for.
type echo struct {
	testpb.UnimplementedTestServiceServer
}

func (echo) UnaryCall(_ context.Context, in *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	return &testpb.SimpleResponse{Payload: &testpb.Payload{Body: make([]byte, in.ResponseSize)}}, nil
}

func (echo) FullDuplexCall(s testpb.TestService_FullDuplexCallServer) error {
	for {
		if _, err := s.Recv(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := s.Send(&testpb.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
}

// metricsOf reads what was recorded: names, attributes, counts, and sums of what is not a
// time.
func metricsOf(t *testing.T, r *sdkmetric.ManualReader) map[string]string {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := r.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	name := func(m metricdata.Metrics, set attribute.Set) string {
		kept, _ := set.Filter(func(kv attribute.KeyValue) bool {
			return kv.Key != "server.port" && kv.Key != "client.port" && kv.Key != "network.peer.port"
		})
		return m.Name + " in " + m.Unit + " " + kept.Encoded(attribute.DefaultEncoder())
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Histogram[int64]:
				for _, p := range d.DataPoints {
					out[name(m, p.Attributes)] = fmt.Sprintf("%d, %d in all", p.Count, p.Sum)
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					out[name(m, p.Attributes)] = fmt.Sprintf("%d", p.Count)
				}
			default:
				t.Errorf("%s is a %T", m.Name, d)
			}
		}
	}
	return out
}

// TestOpenTelemetry: otelgrpc records the same metrics with the same values over either
// implementation.
func TestOpenTelemetry(t *testing.T) {
	record := func(server func(*testing.T, *sdkmetric.MeterProvider) string, client func(*testing.T, *sdkmetric.MeterProvider, string) grpc.ClientConnInterface) map[string]string {
		reader := sdkmetric.NewManualReader()
		mp := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
		c := testpb.NewTestServiceClient(client(t, mp, server(t, mp)))
		ctx := bounded(t)
		for range 5 {
			if _, err := c.UnaryCall(ctx, &testpb.SimpleRequest{ResponseSize: 1000}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.EmptyCall(ctx, &testpb.Empty{}); err == nil {
			t.Fatal("EmptyCall is implemented")
		}
		s, err := c.FullDuplexCall(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := s.Send(&testpb.StreamingOutputCallRequest{Payload: &testpb.Payload{Body: make([]byte, 300)}}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Recv(); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != io.EOF {
			t.Fatal(err)
		}
		// A server's End event may arrive after the client's call has returned.
		const calls = 5 + 1 + 1
		var got, last map[string]string
		for ctx.Err() == nil {
			if got = metricsOf(t, reader); ended(t, got) == 2*calls && maps.Equal(got, last) {
				break
			}
			last = got
			runtime.Gosched()
		}
		return got
	}
	ours := record(func(t *testing.T, mp *sdkmetric.MeterProvider) string {
		s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true), rpc.StatsHandler(otelgrpc.NewServerHandler(otelgrpc.WithMeterProvider(mp))))
		testpb.RegisterTestServiceServer(s, echo{})
		return listen(t, s)
	}, func(t *testing.T, mp *sdkmetric.MeterProvider, addr string) grpc.ClientConnInterface {
		return dial(t, addr, rpc.WithStatsHandler(otelgrpc.NewClientHandler(otelgrpc.WithMeterProvider(mp))))
	})
	theirs := record(func(t *testing.T, mp *sdkmetric.MeterProvider) string {
		s := grpc.NewServer(grpc.StatsHandler(otelgrpc.NewServerHandler(otelgrpc.WithMeterProvider(mp))))
		testpb.RegisterTestServiceServer(s, echo{})
		return listen(t, s)
	}, func(t *testing.T, mp *sdkmetric.MeterProvider, addr string) grpc.ClientConnInterface {
		cc, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithStatsHandler(otelgrpc.NewClientHandler(otelgrpc.WithMeterProvider(mp))))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cc.Close() })
		return cc
	})
	if len(theirs) < 6 {
		t.Fatalf("grpc-go records only %v", theirs)
	}
	for _, k := range slices.Sorted(maps.Keys(theirs)) {
		if ours[k] != theirs[k] {
			t.Errorf("%s\n\tis  %q\n\tand %q in grpc-go", k, ours[k], theirs[k])
		}
	}
	for k := range ours {
		if _, ok := theirs[k]; !ok {
			t.Errorf("grpc-go has no %s", k)
		}
	}
}

// ended counts the calls that have a duration, of both sides.
func ended(t *testing.T, m map[string]string) (n int) {
	for k, v := range m {
		if strings.Contains(k, "duration") {
			count, err := strconv.Atoi(v)
			if err != nil {
				t.Fatal(err)
			}
			n += count
		}
	}
	return n
}

// listen serves until the test ends.
func listen(t *testing.T, s interface {
	Serve(net.Listener) error
	Stop()
}) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(lis) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return lis.Addr().String()
}
