package libraries

import (
	"context"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	daprpb "github.com/dapr/dapr/pkg/proto/runtime/v1"
	"github.com/dapr/go-sdk/client"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
)

// TestMain is also the plugin's process, and that of the benchmarks' server.
func TestMain(m *testing.M) {
	if os.Getenv(serverEnv) != "" {
		if err := serveBenchmarks(); err != nil {
			panic(err)
		}
		return
	}
	if os.Getenv(handshake.MagicCookieKey) == handshake.MagicCookieValue {
		plugin.Serve(&plugin.ServeConfig{HandshakeConfig: handshake, GRPCServer: plugin.DefaultGRPCServer,
			Plugins: plugin.PluginSet{"health": healthPlugin{}}})
		return
	}
	os.Exit(m.Run())
}

// serve runs a Tarn server until the test ends and returns its address.
func serve(t testing.TB, register func(grpc.ServiceRegistrar)) string {
	t.Helper()
	s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true))
	register(s)
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

func dial(t testing.TB, target string, opts ...rpc.DialOption) *rpc.ClientConn {
	t.Helper()
	cc, err := rpc.NewClient(target, append([]rpc.DialOption{rpc.WithPool(tarntest.NewPool(t)),
		rpc.WithTransportCredentials(insecure.NewCredentials())}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return cc
}

func bounded(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// spans is an OTLP collector that counts.
type spans struct {
	collector.UnimplementedTraceServiceServer
	mu    sync.Mutex
	names []string
}

func (s *spans) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rs := range r.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			for _, sp := range ss.Spans {
				s.names = append(s.names, sp.Name)
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// TestOTLP exports spans through WithGRPCConn.
func TestOTLP(t *testing.T) {
	got := &spans{}
	conn := rpc.AsGRPC(dial(t, serve(t, func(s grpc.ServiceRegistrar) { collector.RegisterTraceServiceServer(s, got) })))
	ctx := bounded(t)
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithGRPCConn(conn), otlptracegrpc.WithCompressor("gzip"))
	if err != nil {
		t.Fatal(err)
	}
	tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter))
	for range 100 {
		_, span := tp.Tracer("tarn").Start(ctx, "work")
		span.End()
	}
	if err := tp.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if len(got.names) != 100 {
		t.Errorf("%d spans", len(got.names))
	}
}

// sidecar implements the methods of Dapr's runtime that the test calls.
type sidecar struct {
	daprpb.UnimplementedDaprServer
	mu    sync.Mutex
	state map[string][]byte
}

func (s *sidecar) SaveState(_ context.Context, r *daprpb.SaveStateRequest) (*emptypb.Empty, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, it := range r.States {
		s.state[it.Key] = slices.Clone(it.Value)
	}
	return &emptypb.Empty{}, nil
}

func (s *sidecar) GetState(_ context.Context, r *daprpb.GetStateRequest) (*daprpb.GetStateResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &daprpb.GetStateResponse{Data: s.state[r.Key]}, nil
}

// TestDapr saves and gets state through NewClientWithConnection, whose Close closes the
// Tarn client.
func TestDapr(t *testing.T) {
	cc := dial(t, serve(t, func(s grpc.ServiceRegistrar) {
		daprpb.RegisterDaprServer(s, &sidecar{state: map[string][]byte{}})
	}))
	c := client.NewClientWithConnection(rpc.AsGRPC(cc))
	ctx := bounded(t)
	if err := c.SaveState(ctx, "store", "k", []byte("value"), nil); err != nil {
		t.Fatal(err)
	}
	it, err := c.GetState(ctx, "store", "k", nil)
	if err != nil || string(it.Value) != "value" {
		t.Fatalf("%v, %v", it, err)
	}
	c.Close()
	if err := cc.Close(); err != rpc.ErrClientConnClosing {
		t.Errorf("Close after Dapr's: %v", err)
	}
}

var handshake = plugin.HandshakeConfig{ProtocolVersion: 1, MagicCookieKey: "TARN_PLUGIN", MagicCookieValue: "yes"}

// healthPlugin is a plugin whose service is gRPC's health service.
type healthPlugin struct{ plugin.NetRPCUnsupportedPlugin }

func (healthPlugin) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error { return nil } // go-plugin registers one

func (healthPlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, cc *grpc.ClientConn) (any, error) {
	return healthpb.NewHealthClient(cc), nil
}

// TestPlugin calls a plugin in a separate process through GRPCDialOptions. The Tarn client dials the socket
// that the plugin has announced to go-plugin.
func TestPlugin(t *testing.T) {
	var at net.Addr
	cc := dial(t, "passthrough:///plugin", rpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, at.Network(), at.String())
	}))
	cmd := exec.Command(os.Args[0])
	host := plugin.NewClient(&plugin.ClientConfig{HandshakeConfig: handshake, Plugins: plugin.PluginSet{"health": healthPlugin{}},
		Cmd: cmd, AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC}, GRPCDialOptions: rpc.DialOptions(cc), Logger: hclog.NewNullLogger()})
	defer host.Kill()
	var err error
	if at, err = host.Start(); err != nil {
		t.Fatal(err)
	}
	proto, err := host.Client()
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Ping(); err != nil {
		t.Fatal(err)
	}
	raw, err := proto.Dispense("health")
	if err != nil {
		t.Fatal(err)
	}
	r, err := raw.(healthpb.HealthClient).Check(bounded(t), &healthpb.HealthCheckRequest{Service: "plugin"})
	if err != nil || r.Status != healthpb.HealthCheckResponse_SERVING {
		t.Fatalf("%v, %v", r, err)
	}
}
