package libraries

import (
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
)

// failing is echo whose duplex calls fail after the first message.
type failing struct{ echo }

func (failing) FullDuplexCall(s testpb.TestService_FullDuplexCallServer) error {
	if _, err := s.Recv(); err != nil {
		return err
	}
	return status.Error(codes.DataLoss, "lost")
}

// TestOpenTelemetrySpans: otelgrpc records the same spans over either implementation, on both sides, with the same
// attributes, status and parents, of unary and streaming calls that succeed and fail. Ports are compared by their presence. This
// otelgrpc takes the server's address from OutHeader; later ones take it from the event's context, which TestStatsAsInGRPC compares.
func TestOpenTelemetrySpans(t *testing.T) {
	record := func(svc testpb.TestServiceServer, server func(stats.Handler) string, client func(stats.Handler, string) grpc.ClientConnInterface) map[string]int {
		exporter := tracetest.NewInMemoryExporter()
		tp := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
		with := []otelgrpc.Option{otelgrpc.WithTracerProvider(tp), otelgrpc.WithPropagators(propagation.TraceContext{})}
		cc := client(otelgrpc.NewClientHandler(with...), server(otelgrpc.NewServerHandler(with...)))
		c := testpb.NewTestServiceClient(cc)
		ctx := peer.NewContext(bounded(t), &peer.Peer{}) // as Spanner's client does
		if _, err := c.UnaryCall(ctx, &testpb.SimpleRequest{ResponseSize: 10}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.EmptyCall(ctx, &testpb.Empty{}); status.Code(err) != codes.Unimplemented {
			t.Fatal(err)
		}
		// Neither implementation of a server has a span for a method that it does not know.
		if err := cc.Invoke(ctx, "/grpc.testing.Nowhere/Call", &testpb.Empty{}, &testpb.Empty{}); status.Code(err) != codes.Unimplemented {
			t.Fatal(err)
		}
		s, err := c.FullDuplexCall(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(&testpb.StreamingOutputCallRequest{}); err != nil {
			t.Fatal(err)
		}
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = s.Recv()
		}
		if code := status.Code(err); err != io.EOF && code != codes.DataLoss {
			t.Fatal(err)
		}
		const ended = 4 + 3 // of clients and servers; a server's end may come after its client's
		for len(exporter.GetSpans()) < ended && ctx.Err() == nil {
			runtime.Gosched()
		}
		out := map[string]int{}
		for _, span := range exporter.GetSpans() {
			out[spanText(span)]++
		}
		return out
	}
	for _, svc := range []testpb.TestServiceServer{echo{}, failing{}} {
		t.Run(fmt.Sprintf("%T", svc), func(t *testing.T) {
			ours := record(svc, func(h stats.Handler) string {
				s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true), rpc.StatsHandler(h))
				testpb.RegisterTestServiceServer(s, svc)
				return listen(t, s)
			}, func(h stats.Handler, addr string) grpc.ClientConnInterface {
				return dial(t, addr, rpc.WithStatsHandler(h))
			})
			theirs := record(svc, func(h stats.Handler) string {
				s := grpc.NewServer(grpc.StatsHandler(h))
				testpb.RegisterTestServiceServer(s, svc)
				return listen(t, s)
			}, func(h stats.Handler, addr string) grpc.ClientConnInterface {
				cc, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithStatsHandler(h))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { cc.Close() })
				return cc
			})
			if !maps.Equal(ours, theirs) {
				t.Errorf("spans\n\t%s\nin grpc-go\n\t%s", strings.Join(slices.Sorted(maps.Keys(ours)), "\n\t"), strings.Join(slices.Sorted(maps.Keys(theirs)), "\n\t"))
			}
			if len(theirs) < 7 || !strings.Contains(fmt.Sprint(theirs), "server.address") {
				t.Errorf("grpc-go records only %v", theirs)
			}
		})
	}
}

// spanText is a span without what differs from run to run.
func spanText(s tracetest.SpanStub) string {
	var attrs []string
	for _, kv := range s.Attributes {
		if strings.HasSuffix(string(kv.Key), ".port") {
			kv.Value = attribute.BoolValue(kv.Value.AsInt64() > 0)
		}
		attrs = append(attrs, string(kv.Key)+"="+kv.Value.String())
	}
	slices.Sort(attrs)
	var events []string
	for _, e := range s.Events {
		events = append(events, e.Name)
	}
	return fmt.Sprint(s.SpanKind, " ", s.Name, " ", s.Status, " parent ", s.Parent.IsValid(), s.Parent.IsRemote(), " ", attrs, events)
}
