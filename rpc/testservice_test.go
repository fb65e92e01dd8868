package rpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// testService is a service whose methods the test sets; by default it echoes.
type testService struct {
	pb.UnimplementedTestServiceServer
	unary  func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error)
	duplex func(pb.TestService_FullDuplexCallServer) error
	output func(*pb.StreamingOutputCallRequest, pb.TestService_StreamingOutputCallServer) error
}

func (s *testService) EmptyCall(context.Context, *pb.Empty) (*pb.Empty, error) {
	return &pb.Empty{}, nil
}

func (s *testService) UnaryCall(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	if s.unary != nil {
		return s.unary(ctx, in)
	}
	if st := in.GetResponseStatus(); st.GetCode() != 0 {
		return nil, status.Error(codes.Code(st.Code), st.Message)
	}
	return &pb.SimpleResponse{Payload: in.Payload}, nil
}

func (s *testService) StreamingOutputCall(in *pb.StreamingOutputCallRequest, stream pb.TestService_StreamingOutputCallServer) error {
	if s.output != nil {
		return s.output(in, stream)
	}
	for _, p := range in.ResponseParameters {
		if err := stream.Send(&pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: make([]byte, p.Size)}}); err != nil {
			return err
		}
	}
	return nil
}

func (s *testService) StreamingInputCall(stream pb.TestService_StreamingInputCallServer) error {
	n := 0
	for {
		in, err := stream.Recv()
		if err == io.EOF {
			return stream.SendAndClose(&pb.StreamingInputCallResponse{AggregatedPayloadSize: int32(n)})
		}
		if err != nil {
			return err
		}
		n += len(in.GetPayload().GetBody())
	}
}

func (s *testService) FullDuplexCall(stream pb.TestService_FullDuplexCallServer) error {
	if s.duplex != nil {
		return s.duplex(stream)
	}
	return echoStream(stream)
}

// echoStream answers each message of a stream with its payload until the client has half-closed.
func echoStream(stream pb.TestService_FullDuplexCallServer) error {
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

// body is n bytes that depend on their offsets.
func body(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}

// listen listens on loopback, for connections of t's transport.
func listen(t testing.TB) net.Listener { return listenOver(t) }

func listenTCP(t testing.TB) net.Listener {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return lis
}

// startTarn serves svc with Tarn on a checked pool and returns its address.
func startTarn(t testing.TB, svc pb.TestServiceServer, opts ...rpc.ServerOption) (*rpc.Server, string) {
	t.Helper()
	s := rpc.NewServer(append([]rpc.ServerOption{rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true)}, opts...)...)
	pb.RegisterTestServiceServer(s, svc)
	return s, serve(t, s)
}

type server interface {
	Serve(net.Listener) error
	Stop()
}

func serve(t testing.TB, s server) string {
	t.Helper()
	lis := listen(t)
	done := make(chan error, 1)
	go func() { done <- s.Serve(lis) }()
	t.Cleanup(func() {
		s.Stop()
		// A short test may end before the goroutine has called Serve.
		if err := <-done; err != nil && !errors.Is(err, rpc.ErrServerStopped) && !errors.Is(err, grpc.ErrServerStopped) {
			t.Errorf("Serve: %v", err)
		}
	})
	return lis.Addr().String()
}

// startGRPC serves svc with grpc-go.
func startGRPC(t testing.TB, svc pb.TestServiceServer, opts ...grpc.ServerOption) (*grpc.Server, string) {
	t.Helper()
	s := grpc.NewServer(opts...)
	pb.RegisterTestServiceServer(s, svc)
	return s, serve(t, s)
}

func dialTarn(t testing.TB, addr string, opts ...rpc.DialOption) *rpc.ClientConn {
	t.Helper()
	first := []rpc.DialOption{rpc.WithPool(tarntest.NewPool(t)), rpc.WithTransportCredentials(insecure.NewCredentials())}
	if faultnet.Chosen() || faultnet.KindOf(t) != faultnet.TCP {
		first = append(first, rpc.WithContextDialer(dialOver(t)))
	}
	cc, err := rpc.NewClient(addr, append(first, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return cc
}

func dialGRPC(t testing.TB, addr string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	first := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if faultnet.Chosen() || faultnet.KindOf(t) != faultnet.TCP {
		first = append(first, grpc.WithContextDialer(dialOver(t)))
	}
	cc, err := grpc.NewClient(addr, append(first, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return cc
}

// pairing is one combination of a client and a server.
type pairing struct {
	name   string
	client func(t testing.TB, addr string) grpc.ClientConnInterface
	server func(t testing.TB, svc pb.TestServiceServer) string
}

func tarnClient(t testing.TB, addr string) grpc.ClientConnInterface { return dialTarn(t, addr) }
func grpcClient(t testing.TB, addr string) grpc.ClientConnInterface { return dialGRPC(t, addr) }
func tarnServer(t testing.TB, svc pb.TestServiceServer) string {
	_, addr := startTarn(t, svc)
	return addr
}
func grpcServer(t testing.TB, svc pb.TestServiceServer) string {
	_, addr := startGRPC(t, svc)
	return addr
}

// eachPairing runs f with Tarn on both sides, with grpc-go on either, and with Tarn on both over a network that
// delivers pieces of random length in random order of goroutines.
func eachPairing(t *testing.T, svc pb.TestServiceServer, f func(t *testing.T, c pb.TestServiceClient)) {
	for _, p := range []pairing{
		{"tarn-tarn", tarnClient, tarnServer},
		{"tarn-grpc", tarnClient, grpcServer},
		{"grpc-tarn", grpcClient, tarnServer},
	} {
		t.Run(p.name, func(t *testing.T) {
			addr := p.server(t, svc)
			f(t, pb.NewTestServiceClient(p.client(t, addr)))
		})
	}
	for _, kind := range faultnet.Kinds {
		t.Run("jitter/"+kind.String(), func(t *testing.T) {
			lis := faultnet.Listen(t, kind)
			lis.Faults(func(l *faultnet.Link) { l.ToServer.Jitter(1); l.ToClient.Jitter(2) })
			s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true))
			pb.RegisterTestServiceServer(s, svc)
			go s.Serve(lis)
			t.Cleanup(s.Stop)
			f(t, pb.NewTestServiceClient(dialTarn(t, "passthrough:///x", rpc.WithContextDialer(
				func(ctx context.Context, addr string) (net.Conn, error) { return lis.Dial(ctx, "tcp", addr) }))))
		})
	}
}

func ctxFor(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func wantCode(t testing.TB, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Fatalf("got %v (%v), want %v", got, err, want)
	}
}

func payload(n int) *pb.Payload { return &pb.Payload{Body: body(n)} }

func sizes() []int { return []int{0, 1, 100, 1000, 16 << 10, 70000, 300000, 1 << 20, 3 << 20} }

func pairs(kv ...string) metadata.MD { return metadata.Pairs(kv...) }
