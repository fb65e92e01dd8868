package opentelemetry_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/rpc/opentelemetry"
	"github.com/tarn-go/tarn/tarntest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	experimental "google.golang.org/grpc/experimental/opentelemetry"
	estats "google.golang.org/grpc/experimental/stats"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	grpcotel "google.golang.org/grpc/stats/opentelemetry"
	"google.golang.org/grpc/status"

	_ "google.golang.org/grpc/balancer/weightedroundrobin"
)

// service fails unary calls as their metadata says.
type service struct {
	pb.UnimplementedTestServiceServer
	waits chan struct{} // closed by the handler that waits
	mu    sync.Mutex
	tries map[string]int
}

// overdue is a context whose deadline has passed once done is closed, in place of the one that its parent has, which the server is sent.
type overdue struct {
	context.Context
	done <-chan struct{}
}

func (c overdue) Done() <-chan struct{} { return c.done }

func (c overdue) Err() error {
	select {
	case <-c.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func (s *service) UnaryCall(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	for _, name := range md.Get("fail-twice") {
		s.mu.Lock()
		s.tries[name]++
		n := s.tries[name]
		s.mu.Unlock()
		if n <= 2 {
			return nil, status.Error(codes.Unavailable, "not yet")
		}
	}
	if len(md.Get("wait")) > 0 {
		close(s.waits)
		<-ctx.Done()
		return nil, status.Error(codes.Aborted, "too late")
	}
	if in.ResponseStatus != nil {
		return nil, status.Error(codes.Code(in.ResponseStatus.Code), in.ResponseStatus.Message)
	}
	return &pb.SimpleResponse{Payload: &pb.Payload{Body: make([]byte, in.ResponseSize)}}, nil
}

func (s *service) FullDuplexCall(stream pb.TestService_FullDuplexCallServer) error {
	for {
		in, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.Send(&pb.StreamingOutputCallResponse{Payload: in.Payload}); err != nil {
			return err
		}
	}
}

// conn is a client of either implementation.
type conn interface {
	grpc.ClientConnInterface
	Connect()
	GetState() connectivity.State
	WaitForStateChange(context.Context, connectivity.State) bool
	Close() error
}

// server is a server of either implementation.
type server interface {
	grpc.ServiceRegistrar
	Serve(net.Listener) error
	GracefulStop()
}

const retrying = `{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":4,"initialBackoff":"0.001s","maxBackoff":"0.001s",` +
	`"backoffMultiplier":1,"retryableStatusCodes":["UNAVAILABLE"]}}]}`

// stack is one implementation with what is recorded of it.
type stack struct {
	name     string
	reader   [2]*sdkmetric.ManualReader // the server's, the client's
	spans    [2]*tracetest.InMemoryExporter
	names    *manual.Resolver
	listener net.Listener
	server   server
	cc       conn
	service  *service
}

func newStack(t *testing.T, name, policy string) *stack {
	s := &stack{name: name, names: manual.NewBuilderWithScheme("names")}
	var o [2]grpcotel.Options
	for side := range o {
		s.reader[side], s.spans[side] = sdkmetric.NewManualReader(), tracetest.NewInMemoryExporter()
		metrics := grpcotel.DefaultMetrics().Add("grpc.subchannel.disconnections", "grpc.subchannel.connection_attempts_succeeded",
			"grpc.subchannel.connection_attempts_failed", "grpc.subchannel.open_connections", "grpc.lb.wrr.rr_fallback",
			"grpc.lb.wrr.endpoint_weight_not_yet_usable", "grpc.lb.wrr.endpoint_weights")
		provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(s.reader[side]))
		traces := sdktrace.NewTracerProvider(sdktrace.WithSyncer(s.spans[side]))
		o[side] = grpcotel.Options{
			MetricsOptions: grpcotel.MetricsOptions{MeterProvider: provider, Metrics: metrics,
				MethodAttributeFilter: func(m string) bool { return !strings.HasSuffix(m, "/EmptyCall") },
				OptionalLabels: []string{"grpc.lb.locality", "grpc.client.call.custom", "grpc.lb.backend_service",
					"grpc.disconnect_error", "grpc.security_level"}},
			TraceOptions: experimental.TraceOptions{TracerProvider: traces, TextMapPropagator: propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, grpcotel.GRPCTraceBinPropagator{})},
		}
	}
	var err error
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	s.names.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: s.listener.Addr().String()}}})
	const target = "names:///svc"
	if name == "tarn" {
		s.server = rpc.NewServer(opentelemetry.ServerOption(o[0]), rpc.Pool(tarntest.NewPool(t)))
		s.cc, err = rpc.NewClient(target, opentelemetry.DialOption(o[1]), rpc.WithResolvers(s.names), rpc.WithPool(tarntest.NewPool(t)),
			rpc.WithTransportCredentials(insecure.NewCredentials()), rpc.WithDefaultServiceConfig(policy))
	} else {
		s.server = grpc.NewServer(grpcotel.ServerOption(o[0]))
		s.cc, err = grpc.NewClient(target, grpcotel.DialOption(o[1]), grpc.WithResolvers(s.names),
			grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(policy))
	}
	if err != nil {
		t.Fatal(err)
	}
	s.service = &service{tries: map[string]int{}, waits: make(chan struct{})}
	pb.RegisterTestServiceServer(s.server, s.service)
	go s.server.Serve(s.listener)
	t.Cleanup(func() { s.cc.Close(); s.server.GracefulStop() })
	return s
}

// run makes calls of every kind and end, and stops the server.
func (s *stack) run(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := pb.NewTestServiceClient(s.cc)
	s.cc.Connect()
	s.await(t, connectivity.Ready) // so that no call waits for an address or a connection
	must := func(want codes.Code, err error) {
		t.Helper()
		if status.Code(err) != want {
			t.Errorf("%s: a call ended with %v, want %v", s.name, err, want)
		}
	}
	body := &pb.Payload{Body: make([]byte, 3000)}
	_, err := c.UnaryCall(ctx, &pb.SimpleRequest{Payload: body, ResponseSize: 200})
	must(codes.OK, err)
	_, err = c.UnaryCall(estats.NewContextWithCustomLabel(ctx, "tenant"), &pb.SimpleRequest{Payload: body, ResponseSize: 200}, grpc.UseCompressor(gzip.Name))
	must(codes.OK, err)
	_, err = c.UnaryCall(ctx, &pb.SimpleRequest{ResponseStatus: &pb.EchoStatus{Code: int32(codes.NotFound), Message: "none"}})
	must(codes.NotFound, err)
	_, err = c.UnaryCall(ctx, &pb.SimpleRequest{ResponseStatus: &pb.EchoStatus{Code: 77, Message: "odd"}})
	must(77, err)
	_, err = c.UnaryCall(metadata.AppendToOutgoingContext(ctx, "fail-twice", "a"), &pb.SimpleRequest{})
	must(codes.OK, err)
	must(codes.OK, s.cc.Invoke(ctx, "/grpc.testing.TestService/UnaryCall", &pb.SimpleRequest{}, &pb.SimpleResponse{}))
	_, err = c.EmptyCall(ctx, &pb.Empty{})
	must(codes.Unimplemented, err)
	_, err = c.UnaryCall(overdue{metadata.AppendToOutgoingContext(ctx, "wait", "1"), s.service.waits}, &pb.SimpleRequest{})
	must(codes.DeadlineExceeded, err)

	stream, err := c.FullDuplexCall(ctx)
	must(codes.OK, err)
	for range 3 {
		must(codes.OK, stream.Send(&pb.StreamingOutputCallRequest{Payload: body}))
		_, err = stream.Recv()
		must(codes.OK, err)
	}
	must(codes.OK, stream.CloseSend())
	if _, err = stream.Recv(); err != io.EOF {
		t.Errorf("%s: a stream ended with %v", s.name, err)
	}
	gone, leave := context.WithCancel(ctx)
	stream, err = c.FullDuplexCall(gone)
	must(codes.OK, err)
	must(codes.OK, stream.Send(&pb.StreamingOutputCallRequest{Payload: body}))
	_, err = stream.Recv()
	must(codes.OK, err)
	leave()
	_, err = stream.Recv()
	must(codes.Canceled, err)
	_, err = c.FullDuplexCall(gone)
	must(codes.Canceled, err)

	// The server's side of a method that no service has. A stock ClientConn may see the answer before it has
	// sent the request, and then takes the attempt for a success, so that it is not observed.
	other, err := grpc.NewClient("passthrough:///"+s.listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(codes.OK, err)
	defer other.Close()
	must(codes.Unimplemented, other.Invoke(ctx, "/made.Up/Name", &pb.Empty{}, &pb.Empty{}))
	must(codes.Unimplemented, other.Invoke(ctx, "/grpc.testing.TestService/Nothing", &pb.Empty{}, &pb.Empty{}))
}

// stop ends the server gracefully and waits until its client has seen it and failed to connect again.
func (s *stack) stop(t *testing.T) {
	s.server.GracefulStop()
	s.await(t, connectivity.Idle)
	s.cc.Connect()
	s.await(t, connectivity.TransientFailure)
}

func (s *stack) await(t *testing.T, want connectivity.State) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		st := s.cc.GetState()
		if st == want {
			return
		}
		if !s.cc.WaitForStateChange(ctx, st) {
			t.Fatalf("%s: the client stays %v, want %v", s.name, st, want)
		}
	}
}

// metricsOf reads what was recorded: names, units, descriptions, attributes, bounds, counts, and sums of what
// is not a time.
func metricsOf(t *testing.T, r *sdkmetric.ManualReader) map[string]string {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := r.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			name := func(set attribute.Set) string {
				return fmt.Sprintf("%s %s: %s in %s (%s) {%s}", scope.Scope.Name, scope.Scope.Version, m.Name, m.Unit, m.Description, set.Encoded(attribute.DefaultEncoder()))
			}
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					out[name(p.Attributes)] = fmt.Sprint(p.Value, d.IsMonotonic)
				}
			case metricdata.Histogram[int64]:
				for _, p := range d.DataPoints {
					out[name(p.Attributes)] = fmt.Sprintf("%d, %d in all, %v", p.Count, p.Sum, p.Bounds)
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					out[name(p.Attributes)] = fmt.Sprintf("%d, %v", p.Count, p.Bounds)
				}
			default:
				t.Errorf("%s is a %T", m.Name, d)
			}
		}
	}
	return out
}

// spansOf counts spans by what they contain and whose children they are.
func spansOf(server, client *tracetest.InMemoryExporter) map[string]string {
	all := slices.Concat(server.GetSpans(), client.GetSpans())
	names := map[string]string{}
	for _, s := range all {
		names[s.SpanContext.SpanID().String()] = s.Name
	}
	counts := map[string]int{}
	for _, s := range all {
		parent := names[s.Parent.SpanID().String()]
		if s.Parent.IsRemote() {
			parent += " (remote)"
		}
		text := fmt.Sprintf("%s below %q, a %v of %s %s, %v %v:", s.Name, parent, s.SpanKind, s.InstrumentationScope.Name,
			s.InstrumentationScope.Version, s.Status, s.Attributes)
		for _, e := range s.Events {
			text += fmt.Sprintf(" %s %v", e.Name, e.Attributes)
		}
		// What a stock ClientConn says when the server's timer was faster than its own.
		text = strings.Replace(text, "stream terminated by RST_STREAM with error code: CANCEL", "context deadline exceeded", 1)
		counts[text]++
	}
	out := map[string]string{}
	for text, n := range counts {
		out[text] = fmt.Sprint(n)
	}
	return out
}

// compare reports what is in one only, or differs.
func compare(t *testing.T, what string, grpcgo, tarn map[string]string) {
	t.Helper()
	for _, k := range slices.Sorted(maps.Keys(grpcgo)) {
		if v, ok := tarn[k]; !ok || v != grpcgo[k] {
			t.Errorf("%s %s\n is %s with grpc-go, %s with Tarn", what, k, grpcgo[k], cmp.Or(v, "missing"))
		}
	}
	for k, v := range tarn {
		if _, ok := grpcgo[k]; !ok {
			t.Errorf("%s %s\n is %s with Tarn, missing with grpc-go", what, k, v)
		}
	}
}

// TestAsInGRPC makes the same calls over grpc-go with its option and over Tarn with this package's, and
// compares metrics and spans of both sides.
func TestAsInGRPC(t *testing.T) {
	stacks := map[string]*stack{}
	for _, name := range []string{"grpc-go", "tarn"} {
		s := newStack(t, name, retrying)
		stacks[name] = s
		s.run(t)
		s.stop(t)
	}
	g, n := stacks["grpc-go"], stacks["tarn"]
	for side, what := range []string{"the server's", "the client's"} {
		want := metricsOf(t, g.reader[side])
		if len(want) < 15 {
			t.Errorf("%s: grpc-go has recorded %d series, which is too few to compare", what, len(want))
		}
		compare(t, what, want, metricsOf(t, n.reader[side]))
	}
	compare(t, "spans", spansOf(g.spans[0], g.spans[1]), spansOf(n.spans[0], n.spans[1]))
}

// TestBalancersMetricsAsInGRPC: how often a balancer records depends on time, and what it records does not.
func TestBalancersMetricsAsInGRPC(t *testing.T) {
	recorded := map[string][]string{}
	for _, name := range []string{"grpc-go", "tarn"} {
		s := newStack(t, name, `{"loadBalancingConfig":[{"weighted_round_robin":{}}]}`)
		if _, err := pb.NewTestServiceClient(s.cc).UnaryCall(t.Context(), &pb.SimpleRequest{}); err != nil {
			t.Fatal(err)
		}
		for k := range metricsOf(t, s.reader[1]) {
			if strings.Contains(k, "grpc.lb.wrr") {
				recorded[name] = append(recorded[name], k)
			}
		}
		slices.Sort(recorded[name])
	}
	if g := recorded["grpc-go"]; len(g) == 0 || !slices.Equal(g, recorded["tarn"]) {
		t.Errorf("weighted_round_robin records with grpc-go:\n%s\nwith Tarn:\n%s", strings.Join(g, "\n"), strings.Join(recorded["tarn"], "\n"))
	}
}
