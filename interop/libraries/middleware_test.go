package libraries

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/auth"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
)

// moody is a service that fails every second call and panics when asked to.
type moody struct {
	testpb.UnimplementedTestServiceServer
	mu    sync.Mutex
	calls int
}

func (m *moody) UnaryCall(_ context.Context, in *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	if in.FillUsername {
		panic("as asked")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.calls++; m.calls%2 == 1 {
		return nil, status.Error(codes.Unavailable, "again")
	}
	return &testpb.SimpleResponse{}, nil
}

func (m *moody) FullDuplexCall(s testpb.TestService_FullDuplexCallServer) error {
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

// middleware is the interceptors of go-grpc-middleware and its metrics for Prometheus, and what they have seen.
type middleware struct {
	server *grpcprom.ServerMetrics
	client *grpcprom.ClientMetrics
	mu     sync.Mutex
	lines  []string
}

func newMiddleware() *middleware {
	return &middleware{server: grpcprom.NewServerMetrics(), client: grpcprom.NewClientMetrics()}
}

func (m *middleware) Log(_ context.Context, _ logging.Level, msg string, fields ...any) {
	line := msg
	for i := 0; i+1 < len(fields); i += 2 {
		switch fields[i] {
		case "grpc.component", "grpc.service", "grpc.method", "grpc.method_type", "grpc.code", "grpc.error":
			line += fmt.Sprintf(" %v=%v", fields[i], fields[i+1])
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lines = append(m.lines, line)
}

func (m *middleware) unaryServer() []grpc.UnaryServerInterceptor {
	return []grpc.UnaryServerInterceptor{m.server.UnaryServerInterceptor(), logging.UnaryServerInterceptor(m),
		auth.UnaryServerInterceptor(bearer), recovery.UnaryServerInterceptor(recovered)}
}

func (m *middleware) streamServer() []grpc.StreamServerInterceptor {
	return []grpc.StreamServerInterceptor{m.server.StreamServerInterceptor(), logging.StreamServerInterceptor(m),
		auth.StreamServerInterceptor(bearer), recovery.StreamServerInterceptor(recovered)}
}

func (m *middleware) unaryClient() []grpc.UnaryClientInterceptor {
	return []grpc.UnaryClientInterceptor{m.client.UnaryClientInterceptor(), logging.UnaryClientInterceptor(m),
		retry.UnaryClientInterceptor(retry.WithMax(3), retry.WithBackoff(retry.BackoffLinear(1)), retry.WithCodes(codes.Unavailable))}
}

func (m *middleware) streamClient() []grpc.StreamClientInterceptor {
	return []grpc.StreamClientInterceptor{m.client.StreamClientInterceptor(), logging.StreamClientInterceptor(m)}
}

// recovered is what a panic becomes.
var recovered = recovery.WithRecoveryHandler(func(v any) error { return status.Errorf(codes.DataLoss, "it said %v", v) })

func bearer(ctx context.Context) (context.Context, error) {
	if token, err := auth.AuthFromMD(ctx, "bearer"); err != nil || token != "known" {
		return nil, status.Error(codes.Unauthenticated, "no token")
	}
	return ctx, nil
}

// use makes calls, stops the server with stop, and returns what the middleware has counted and logged.
func (m *middleware) use(t *testing.T, cc grpc.ClientConnInterface, stop func()) []string {
	t.Helper()
	c := testpb.NewTestServiceClient(cc)
	_, err := c.UnaryCall(bounded(t), &testpb.SimpleRequest{})
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("without a token: %v", err)
	}
	ctx := metadata.AppendToOutgoingContext(bounded(t), "authorization", "bearer known")
	for range 2 {
		if _, err := c.UnaryCall(ctx, &testpb.SimpleRequest{}); err != nil {
			t.Errorf("a call that is tried again: %v", err)
		}
	}
	if _, err := c.UnaryCall(ctx, &testpb.SimpleRequest{FillUsername: true}); status.Code(err) != codes.DataLoss {
		t.Errorf("a panic: %v", err)
	}
	s, err := c.FullDuplexCall(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := s.Send(&testpb.StreamingOutputCallRequest{}); err != nil {
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
	stop() // when all interceptors have returned
	reg := prometheus.NewRegistry()
	reg.MustRegister(m.server, m.client)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := slices.Clone(m.lines)
	for _, f := range families {
		for _, metric := range f.Metric {
			seen = append(seen, f.GetName()+" "+strings.Join(strings.Fields(metric.String()), " "))
		}
	}
	slices.Sort(seen)
	for i, line := range seen { // created_timestamp differs from run to run
		seen[i], _, _ = strings.Cut(line, " created_timestamp")
	}
	return seen
}

// TestMiddleware: go-grpc-middleware's interceptors (authentication, logging, recovery, retry) and its metrics
// for Prometheus see the same on Tarn's client and server as on grpc-go's.
func TestMiddleware(t *testing.T) {
	theirs := newMiddleware()
	stock := grpc.NewServer(grpc.ChainUnaryInterceptor(theirs.unaryServer()...), grpc.ChainStreamInterceptor(theirs.streamServer()...))
	testpb.RegisterTestServiceServer(stock, &moody{})
	stockConn, err := grpc.NewClient(listen(t, stock), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(theirs.unaryClient()...), grpc.WithChainStreamInterceptor(theirs.streamClient()...))
	if err != nil {
		t.Fatal(err)
	}
	defer stockConn.Close()
	want := theirs.use(t, stockConn, stock.GracefulStop)

	ours := newMiddleware()
	s := rpc.NewServer(rpc.ChainUnaryInterceptor(ours.unaryServer()...), rpc.ChainStreamInterceptor(ours.streamServer()...),
		rpc.Pool(tarntest.NewPool(t)))
	testpb.RegisterTestServiceServer(s, &moody{})
	cc := dial(t, listen(t, s), rpc.WithChainUnaryInterceptor(ours.unaryClient()...), rpc.WithChainStreamInterceptor(ours.streamClient()...))
	got := ours.use(t, cc, s.GracefulStop)
	if len(want) < 30 || !slices.Equal(got, want) {
		t.Errorf("over Tarn\n%s\nand over grpc-go\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
