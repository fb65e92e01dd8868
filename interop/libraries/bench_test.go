package libraries

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"

	daprpb "github.com/dapr/dapr/pkg/proto/runtime/v1"
	"github.com/dapr/go-sdk/client"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/tarn-go/tarn/internal/child"
	"github.com/tarn-go/tarn/internal/cputime"
	"github.com/tarn-go/tarn/internal/turn"
	"github.com/tarn-go/tarn/rpc"
)

// serverEnv makes this test's binary the server of the benchmarks.
const serverEnv = "TARN_LIBRARIES_SERVER"

// dropped is an OTLP collector that keeps nothing.
type dropped struct {
	collector.UnimplementedTraceServiceServer
}

func (dropped) Export(context.Context, *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	return &collector.ExportTraceServiceResponse{}, nil
}

// serveBenchmarks serves those on grpc-go, in the process that server starts.
func serveBenchmarks() error {
	s := grpc.NewServer()
	collector.RegisterTraceServiceServer(s, dropped{})
	daprpb.RegisterDaprServer(s, &sidecar{state: map[string][]byte{"k": make([]byte, 100)}})
	lis, err := child.Listen(s.Stop)
	if err != nil {
		return err
	}
	return s.Serve(lis)
}

// server starts that server in a process of its own and returns its address.
func server(b *testing.B) string {
	b.Helper()
	cmd, err := child.Self()
	if err != nil {
		b.Fatal(err)
	}
	cmd.Env = append(os.Environ(), serverEnv+"=1")
	p, err := child.Start(cmd)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := p.Close(); err != nil {
			b.Error(err)
		}
	})
	return p.Addr
}

// compared is one of the connections that a benchmark compares.
type compared struct {
	name string
	conn *grpc.ClientConn
}

// conns are the stock ClientConn and that of AsGRPC.
func conns(b *testing.B) []compared {
	b.Helper()
	addr := server(b)
	stock, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { stock.Close() })
	cc, err := rpc.NewClient(addr, rpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { cc.Close() })
	return turn.Order(compared{"grpc", stock}, compared{"tarn", rpc.AsGRPC(cc)})
}

// measure runs call over and over by eight goroutines a processor. Allocations and cpu-us/op, processor time, are
// the client's.
func measure(b *testing.B, name string, call func(context.Context) error) {
	b.Run("peer="+name, func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(8)
		before := cputime.Used()
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				if err := call(context.Background()); err != nil {
					b.Error(err)
					return
				}
			}
		})
		b.ReportMetric(float64((cputime.Used()-before).Microseconds())/float64(b.N), "cpu-us/op")
	})
}

// BenchmarkOTLP exports ten spans with each call.
func BenchmarkOTLP(b *testing.B) {
	spans := make(tracetest.SpanStubs, 10)
	for i := range spans {
		spans[i].Name = "work"
	}
	for _, c := range conns(b) {
		exporter, err := otlptracegrpc.New(context.Background(), otlptracegrpc.WithGRPCConn(c.conn))
		if err != nil {
			b.Fatal(err)
		}
		measure(b, c.name, func(ctx context.Context) error { return exporter.ExportSpans(ctx, spans.Snapshots()) })
	}
}

// BenchmarkDapr gets a value of 100 bytes.
func BenchmarkDapr(b *testing.B) {
	for _, c := range conns(b) {
		dapr := client.NewClientWithConnection(c.conn)
		measure(b, c.name, func(ctx context.Context) error {
			it, err := dapr.GetState(ctx, "store", "k", nil)
			if err == nil && len(it.Value) != 100 {
				err = fmt.Errorf("%d bytes", len(it.Value))
			}
			return err
		})
	}
}

// BenchmarkPlugin calls a plugin, which grpc-go serves on a Unix socket.
func BenchmarkPlugin(b *testing.B) {
	for _, name := range turn.Order("grpc", "tarn") {
		var at net.Addr
		cc, err := rpc.NewClient("passthrough:///plugin", rpc.WithTransportCredentials(insecure.NewCredentials()),
			rpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, at.Network(), at.String())
			}))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { cc.Close() })
		var opts []grpc.DialOption
		if name == "tarn" {
			opts = rpc.DialOptions(cc)
		}
		host := plugin.NewClient(&plugin.ClientConfig{HandshakeConfig: handshake, Plugins: plugin.PluginSet{"health": healthPlugin{}},
			Cmd: exec.Command(os.Args[0]), AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC}, GRPCDialOptions: opts, Logger: hclog.NewNullLogger()})
		b.Cleanup(host.Kill)
		if at, err = host.Start(); err != nil {
			b.Fatal(err)
		}
		proto, err := host.Client()
		if err != nil {
			b.Fatal(err)
		}
		raw, err := proto.Dispense("health")
		if err != nil {
			b.Fatal(err)
		}
		measure(b, name, func(ctx context.Context) error {
			_, err := raw.(healthpb.HealthClient).Check(ctx, &healthpb.HealthCheckRequest{Service: "plugin"})
			return err
		})
	}
}
