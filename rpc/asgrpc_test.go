package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"slices"
	"sync/atomic"
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
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
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

// serializers counts grpc-go's goroutines of ClientConns.
func serializers() int {
	stacks := make([]byte, 4<<20)
	return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte("CallbackSerializer).run("))
}

// TestInterceptorsCost: a client with interceptors has no ClientConn of grpc-go before its first call, and then one; what a new client allocates
// is what one without interceptors does, and the chain of the interceptors.
func TestInterceptorsCost(t *testing.T) {
	_, addr := startTarn(t, &testService{})
	made := func(opts ...rpc.DialOption) (allocs float64) {
		return testing.AllocsPerRun(100, func() {
			cc, err := rpc.NewClient(addr, append(opts, rpc.WithTransportCredentials(insecure.NewCredentials()))...)
			if err != nil {
				t.Fatal(err)
			}
			cc.Close()
		})
	}
	without, with := made(), made(passing()...)
	if with > without+10*raceFactor { // the detector allocates, too
		t.Errorf("a client allocates %v times with interceptors and %v times without", with, without)
	}
	before := serializers()
	cc := dialTarn(t, addr, passing()...)
	if n := serializers() - before; n != 0 {
		t.Errorf("a client with interceptors has %d goroutines of grpc-go", n)
	}
	for range 2 {
		if _, err := pb.NewTestServiceClient(cc).EmptyCall(ctxFor(t), &pb.Empty{}); err != nil {
			t.Fatal(err)
		}
		if n := serializers() - before; n != 3 {
			t.Errorf("a client whose interceptors have seen a call has %d goroutines of grpc-go, want the 3 of a ClientConn", n)
		}
	}
	cc.Close()
	if n := serializers() - before; n != 0 {
		t.Errorf("a closed client has %d goroutines of grpc-go", n)
	}
}

// TestInterceptorsUseTheirConn: what an interceptor can do with the ClientConn that it is given works from the first call on: it has the target
// and the state, connects, and makes calls.
func TestInterceptorsUseTheirConn(t *testing.T) {
	_, addr := startTarn(t, &testService{})
	for _, p := range protocols {
		type inner struct{}
		var seen []string
		unary := func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if ctx.Value(inner{}) != nil {
				return next(ctx, method, req, reply, conn, opts...)
			}
			conn.Connect()
			for s := conn.GetState(); s != connectivity.Ready; s = conn.GetState() {
				if !conn.WaitForStateChange(ctx, s) {
					return ctx.Err()
				}
			}
			seen = append(seen, conn.Target(), conn.CanonicalTarget(), conn.GetState().String())
			c := pb.NewTestServiceClient(conn)
			ctx = context.WithValue(ctx, inner{}, true)
			if _, err := c.EmptyCall(ctx, &pb.Empty{}); err != nil {
				return err
			}
			s, err := c.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
			if err != nil {
				return err
			}
			if _, err := s.Recv(); err != io.EOF {
				return err
			}
			return next(ctx, method, req, reply, conn, opts...)
		}
		cc := dialTarn(t, addr, rpc.WithProtocol(p), rpc.WithUnaryInterceptor(unary))
		if _, err := pb.NewTestServiceClient(cc).EmptyCall(ctxFor(t), &pb.Empty{}); err != nil {
			t.Errorf("%v: %v", p, err)
		}
		if want := []string{cc.Target(), rpc.AsGRPC(cc).CanonicalTarget(), "READY"}; !slices.Equal(seen, want) {
			t.Errorf("%v: an interceptor sees %q, want %q", p, seen, want)
		}
	}
}

// TestAsGRPCHasNoTransport: neither the ClientConn of AsGRPC nor one of DialOptions resolves its target or runs a goroutine of grpc-go's
// transport, not even when it is told to connect. What a resolver of the library returns is not used.
func TestAsGRPCHasNoTransport(t *testing.T) {
	_, addr := startTarn(t, &testService{})
	r := &authorityResolver{Resolver: manual.NewBuilderWithScheme("transportless"), built: new(atomic.Int32)}
	r.InitialState(resolver.State{Endpoints: []resolver.Endpoint{{Addresses: []resolver.Address{{Addr: addr}}}}})
	cc := dialTarn(t, "transportless:///x", rpc.WithResolvers(r))
	own := manual.NewBuilderWithScheme("own")
	own.InitialState(resolver.State{Endpoints: []resolver.Endpoint{{Addresses: []resolver.Address{{Addr: "127.0.0.1:1"}}}}})
	conns := []*grpc.ClientConn{rpc.AsGRPC(cc)}
	for _, target := range []string{"transportless:///x", "own:///x"} {
		library, err := grpc.NewClient(target, append([]grpc.DialOption{grpc.WithResolvers(own)}, rpc.DialOptions(cc)...)...)
		if err != nil {
			t.Fatal(err)
		}
		defer library.Close()
		conns = append(conns, library)
	}
	for _, conn := range conns {
		conn.Connect()
		waitStock(t, conn, connectivity.Ready)
		stream, err := pb.NewTestServiceClient(conn).FullDuplexCall(ctxFor(t))
		if err != nil {
			t.Fatal(err)
		}
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		if i := bytes.Index(stacks, []byte("google.golang.org/grpc/internal/transport.")); i >= 0 {
			t.Errorf("a goroutine of grpc-go's transport runs: %s", stacks[i:])
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
	}
	own.CC().ReportError(errors.New("no names"))
	_ = own.CC().UpdateState(resolver.State{}) // no addresses, which its balancer may refuse
	for _, conn := range conns {
		if _, err := pb.NewTestServiceClient(conn).EmptyCall(ctxFor(t), &pb.Empty{}); err != nil || conn.GetState() != connectivity.Ready {
			t.Errorf("after an error of the library's resolver: %v, %v", err, conn.GetState())
		}
	}
	if n := r.built.Load(); n != 1 {
		t.Errorf("the target was resolved %d times, the client's own included", n)
	}
}

// authorityResolver is a resolver that gives its targets an authority.
type authorityResolver struct {
	*manual.Resolver
	built *atomic.Int32
}

func (r *authorityResolver) Build(target resolver.Target, cc resolver.ClientConn, opts resolver.BuildOptions) (resolver.Resolver, error) {
	r.built.Add(1)
	return r.Resolver.Build(target, cc, opts)
}

func (r *authorityResolver) OverrideAuthority(target resolver.Target) string {
	return target.Endpoint() + ".resolved.test"
}

// TestAuthorityOfAResolver: a resolver may give its targets an authority (resolver.AuthorityOverrider), as in grpc-go.
func TestAuthorityOfAResolver(t *testing.T) {
	_, addr := startTarn(t, &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		return &pb.SimpleResponse{Username: md.Get(":authority")[0]}, nil
	}})
	r := &authorityResolver{Resolver: manual.NewBuilderWithScheme("authorities"), built: new(atomic.Int32)}
	r.InitialState(resolver.State{Endpoints: []resolver.Endpoint{{Addresses: []resolver.Address{{Addr: addr}}}}})
	for name, cc := range map[string]grpc.ClientConnInterface{
		"tarn":    dialTarn(t, "authorities:///x", rpc.WithResolvers(r)),
		"grpc-go": dialGRPC(t, "authorities:///x", grpc.WithResolvers(r)),
	} {
		out, err := pb.NewTestServiceClient(cc).UnaryCall(ctxFor(t), &pb.SimpleRequest{})
		if err != nil || out.Username != "x.resolved.test" {
			t.Errorf("%s: the authority is %q, %v", name, out.GetUsername(), err)
		}
	}
}
