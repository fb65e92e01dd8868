package rpc_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// stockConns are the ways to a *grpc.ClientConn over a client.
func stockConns(t *testing.T, cc *rpc.ClientConn, opts ...grpc.DialOption) map[string]*grpc.ClientConn {
	dialled, err := grpc.NewClient("dns:///elsewhere.invalid:1", append(opts, rpc.DialOptions(cc)...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialled.Close() })
	return map[string]*grpc.ClientConn{"AsGRPC": rpc.AsGRPC(cc), "DialOptions": dialled}
}

// Calls of a stock ClientConn are the client's, with options and outputs.
func TestAsGRPC(t *testing.T) {
	faultnet.NeedsTCP(t, "the relay has addresses of its own")
	_, addr := startTarn(t, &testService{unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		grpc.SetHeader(ctx, metadata.Pairs("h", "1"))
		grpc.SetTrailer(ctx, metadata.Pairs("t", "2"))
		return &pb.SimpleResponse{Payload: in.Payload}, nil
	}})
	for name, conn := range stockConns(t, dialTarn(t, addr), grpc.WithInsecure()) {
		t.Run(name, func(t *testing.T) {
			c := pb.NewTestServiceClient(conn)
			var header, trailer metadata.MD
			var p peer.Peer
			finished := 0
			out, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(1000)}, grpc.Header(&header), grpc.Trailer(&trailer),
				grpc.Peer(&p), grpc.OnFinish(func(error) { finished++ }), grpc.WaitForReady(true), grpc.StaticMethod())
			if err != nil || len(out.Payload.Body) != 1000 {
				t.Fatal(err)
			}
			if header.Get("h") == nil || trailer.Get("t") == nil || p.Addr.String() != addr || finished != 1 {
				t.Errorf("header %v, trailer %v, peer %v, finished %d", header, trailer, p, finished)
			}
			st, err := c.FullDuplexCall(ctxFor(t))
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if err := st.Send(&pb.StreamingOutputCallRequest{Payload: payload(10)}); err != nil {
					t.Fatal(err)
				}
				if _, err := st.Recv(); err != nil {
					t.Fatal(err)
				}
			}
			if err := st.CloseSend(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func waitStock(t *testing.T, conn *grpc.ClientConn, want connectivity.State) {
	t.Helper()
	for s := conn.GetState(); s != want; s = conn.GetState() {
		if !conn.WaitForStateChange(ctxFor(t), s) {
			t.Fatalf("the state is %v and stays, want %v", s, want)
		}
	}
}

// The state is the client's, Connect connects it, and Close of either closes both.
func TestAsGRPCState(t *testing.T) {
	_, addr := startTarn(t, &testService{})
	cc := dialTarn(t, addr)
	conn := rpc.AsGRPC(cc)
	if conn != rpc.AsGRPC(cc) {
		t.Error("another ClientConn")
	}
	waitStock(t, conn, connectivity.Idle)
	if s := cc.GetState(); s != connectivity.Idle {
		t.Fatalf("AsGRPC has connected: %v", s)
	}
	conn.Connect()
	waitStock(t, conn, connectivity.Ready)
	waitState(t, cc, connectivity.Ready)
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	waitState(t, cc, connectivity.Shutdown)
	_, err := pb.NewTestServiceClient(conn).EmptyCall(ctxFor(t), &pb.Empty{})
	wantCode(t, err, codes.Canceled)

	cc = dialTarn(t, addr)
	conn = rpc.AsGRPC(cc)
	cc.Connect()
	waitStock(t, conn, connectivity.Ready)
	if err := cc.Close(); err != nil {
		t.Fatal(err)
	}
	waitStock(t, conn, connectivity.Shutdown)

	cc = dialTarn(t, addr)
	cc.Close()
	if s := rpc.AsGRPC(cc).GetState(); s != connectivity.Shutdown {
		t.Errorf("of a closed client: %v", s)
	}
}

// A library's own ClientConn connects the client when told to, shows its state, adds its interceptors and
// user agent, and its Close leaves the client open.
func TestDialOptions(t *testing.T) {
	agents := make(chan string, 10)
	_, addr := startTarn(t, &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		agents <- md.Get("user-agent")[0]
		return &pb.SimpleResponse{}, nil
	}})
	cc := dialTarn(t, addr, rpc.WithUserAgent("mine"))
	var inner []string
	opts := append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUserAgent("library/1"),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { t.Error("dialled"); return nil, net.ErrClosed }),
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			inner = append(inner, cc.Target())
			return next(ctx, method, req, reply, cc, opts...)
		}),
	}, rpc.DialOptions(cc)...)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	conn, err := grpc.DialContext(ctx, "elsewhere.invalid:1", append(opts, grpc.WithBlock())...)
	if err != nil {
		t.Fatal(err)
	}
	waitStock(t, conn, connectivity.Ready)
	for range 2 {
		if _, err := pb.NewTestServiceClient(conn).UnaryCall(ctx, &pb.SimpleRequest{}); err != nil {
			t.Fatal(err)
		}
		if a := <-agents; a != "library/1 mine grpc-go-tarn/1" {
			t.Errorf("user agent %q", a)
		}
	}
	if len(inner) != 2 || inner[0] != "elsewhere.invalid:1" {
		t.Errorf("interceptor: %q", inner)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := pb.NewTestServiceClient(cc).EmptyCall(ctx, &pb.Empty{}); err != nil {
		t.Errorf("the client after the library's Close: %v", err)
	}
}

// Interceptors get the ClientConn of AsGRPC.
func TestInterceptorsSeeTheTarget(t *testing.T) {
	_, addr := startTarn(t, &testService{})
	var seen *grpc.ClientConn
	cc := dialTarn(t, addr, rpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		seen = conn
		return next(ctx, method, req, reply, conn, opts...)
	}))
	if _, err := pb.NewTestServiceClient(cc).EmptyCall(ctxFor(t), &pb.Empty{}); err != nil {
		t.Fatal(err)
	}
	if seen != rpc.AsGRPC(cc) || seen.Target() != addr {
		t.Errorf("target %q", seen.Target())
	}
}
