package rpc_test

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func TestMetadata(t *testing.T) {
	svc := &testService{
		unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			md, _ := metadata.FromIncomingContext(ctx)
			if got := md.Get("k"); !slices.Equal(got, []string{"a", "b"}) {
				return nil, status.Errorf(codes.Internal, "k is %q", got)
			}
			if got := md.Get("k-bin"); !slices.Equal(got, []string{"\x00\xff,"}) {
				return nil, status.Errorf(codes.Internal, "k-bin is %q", got)
			}
			if len(md.Get(":authority")) != 1 || len(md.Get("user-agent")) != 1 || len(md.Get("content-type")) != 1 {
				return nil, status.Errorf(codes.Internal, "metadata is %v", md)
			}
			if m, ok := grpc.Method(ctx); !ok || m != "/grpc.testing.TestService/UnaryCall" {
				return nil, status.Errorf(codes.Internal, "method is %q", m)
			}
			if p, ok := peer.FromContext(ctx); !ok || p.Addr == nil {
				return nil, status.Error(codes.Internal, "no peer")
			}
			if err := grpc.SetHeader(ctx, pairs("h1", "1")); err != nil {
				return nil, err
			}
			if err := grpc.SendHeader(ctx, pairs("h2-bin", "\x01")); err != nil {
				return nil, err
			}
			if err := grpc.SetHeader(ctx, pairs("late", "1")); err == nil {
				return nil, status.Error(codes.Internal, "SetHeader after SendHeader")
			}
			return &pb.SimpleResponse{}, grpc.SetTrailer(ctx, pairs("t", "x", "t-bin", "\xfe"))
		},
		duplex: func(s pb.TestService_FullDuplexCallServer) error {
			if err := s.SetHeader(pairs("h", "stream")); err != nil {
				return err
			}
			s.SetTrailer(pairs("t", "stream"))
			return status.Error(codes.DataLoss, "gone")
		},
	}
	eachPairing(t, svc, func(t *testing.T, c pb.TestServiceClient) {
		ctx := metadata.AppendToOutgoingContext(ctxFor(t), "k", "a", "K", "b", "k-bin", "\x00\xff,")
		var h, tr metadata.MD
		var p peer.Peer
		if _, err := c.UnaryCall(ctx, &pb.SimpleRequest{}, grpc.Header(&h), grpc.Trailer(&tr), grpc.Peer(&p)); err != nil {
			t.Fatal(err)
		}
		if h.Get("h1")[0] != "1" || h.Get("h2-bin")[0] != "\x01" || len(h.Get("late")) != 0 {
			t.Fatalf("header %v", h)
		}
		if tr.Get("t")[0] != "x" || tr.Get("t-bin")[0] != "\xfe" || p.Addr == nil {
			t.Fatalf("trailer %v, peer %v", tr, p)
		}
		s, err := c.FullDuplexCall(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if hd, err := s.Header(); err != nil || hd.Get("h")[0] != "stream" {
			t.Fatal(hd, err)
		}
		_, err = s.Recv()
		wantCode(t, err, codes.DataLoss)
		if s.Trailer().Get("t")[0] != "stream" {
			t.Fatal(s.Trailer())
		}
	})
}

func TestStatusDetails(t *testing.T) {
	svc := &testService{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		st, err := status.New(codes.Aborted, "\t☺ % \n").WithDetails(wrapperspb.String("more"))
		if err != nil {
			return nil, err
		}
		return nil, st.Err()
	}}
	eachPairing(t, svc, func(t *testing.T, c pb.TestServiceClient) {
		_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{})
		st := status.Convert(err)
		if st.Code() != codes.Aborted || st.Message() != "\t☺ % \n" || len(st.Details()) != 1 {
			t.Fatalf("%v %q %v", st.Code(), st.Message(), st.Details())
		}
	})
}

// TestStatusDetailsReplaceATrailers: of a trailer with the key of the status' details, as a proxy passes it on, nothing is sent when
// the status has details of its own.
func TestStatusDetailsReplaceATrailers(t *testing.T) {
	const key = "grpc-status-details-bin"
	svc := &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		if err := grpc.SetTrailer(ctx, metadata.Pairs(key, "passed on", "other", "stays")); err != nil {
			return nil, err
		}
		st, err := status.New(codes.Aborted, "text").WithDetails(wrapperspb.String("more"))
		if err != nil {
			return nil, err
		}
		return nil, st.Err()
	}}
	check := func(t *testing.T, c pb.TestServiceClient) {
		var trailer metadata.MD
		_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}, grpc.Trailer(&trailer))
		st := status.Convert(err)
		details, _ := proto.Marshal(st.Proto())
		if got := trailer[key]; len(st.Details()) != 1 || len(got) != 1 || got[0] != string(details) || len(trailer["other"]) != 1 {
			t.Errorf("%v %v with the trailer %q", err, st.Details(), trailer)
		}
	}
	eachPairing(t, svc, check)
	t.Run("ServeHTTP", func(t *testing.T) {
		s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)))
		pb.RegisterTestServiceServer(s, svc)
		t.Cleanup(s.Stop)
		check(t, pb.NewTestServiceClient(dialGRPC(t, serveHTTP2(t, s))))
	})
	eachWeb(t, svc, func(t *testing.T, c pb.TestServiceClient, major int) {
		_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{})
		if st := status.Convert(err); st.Code() != codes.Aborted || len(st.Details()) != 1 {
			t.Errorf("HTTP/%d: %v %v", major, err, st.Details())
		}
	})
}

func TestHandlerErrors(t *testing.T) {
	var give error
	svc := &testService{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) { return nil, give }}
	eachPairing(t, svc, func(t *testing.T, c pb.TestServiceClient) {
		for _, x := range []struct {
			err  error
			want codes.Code
		}{
			{errors.New("plain"), codes.Unknown},
			{context.Canceled, codes.Canceled},
			{context.DeadlineExceeded, codes.DeadlineExceeded},
			{status.Error(77, "odd"), 77},
		} {
			give = x.err
			_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{})
			if status.Code(err) != x.want && !(x.want == codes.Canceled || x.want == codes.DeadlineExceeded) {
				t.Errorf("%v came back as %v", x.err, err)
			}
		}
	})
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	unary, duplex := make(chan error, 10), make(chan error, 10)
	svc := &testService{
		unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			if _, ok := ctx.Deadline(); !ok {
				unary <- errors.New("no deadline")
				return nil, nil
			}
			<-ctx.Done()
			unary <- ctx.Err()
			return nil, ctx.Err()
		},
		duplex: func(s pb.TestService_FullDuplexCallServer) error {
			_, err := s.Recv()
			duplex <- err
			return err
		},
	}
	// handled makes a call with a deadline and returns how its handler ended. On a busy machine a call may end before its handler
	// begins: then there is another, with a later deadline.
	handled := func(t *testing.T, call func(ctx context.Context) error, ended <-chan error) error {
		for timeout := 100 * time.Millisecond; ; timeout *= 2 {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			wantCode(t, call(ctx), codes.DeadlineExceeded)
			cancel()
			select {
			case err := <-ended:
				return err
			case <-time.After(timeout):
			}
		}
	}
	eachPairing(t, svc, func(t *testing.T, c pb.TestServiceClient) {
		err := handled(t, func(ctx context.Context) error {
			_, err := c.UnaryCall(ctx, &pb.SimpleRequest{})
			return err
		}, unary)
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		err = handled(t, func(ctx context.Context) error {
			s, err := c.FullDuplexCall(ctx)
			if err != nil {
				return err
			}
			_, err = s.Recv()
			return err
		}, duplex)
		if status.Code(err) != codes.DeadlineExceeded && status.Code(err) != codes.Canceled {
			t.Fatal(err)
		}
		// A deadline that has passed is not sent to the server.
		ctx, cancel := context.WithTimeout(context.Background(), -time.Second)
		defer cancel()
		_, err = c.UnaryCall(ctx, &pb.SimpleRequest{})
		wantCode(t, err, codes.DeadlineExceeded)
	})
}

func TestCancel(t *testing.T) {
	began, ended := make(chan struct{}, 10), make(chan error, 10)
	svc := &testService{
		unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			// A context derived by package context must end too.
			child, cancel := context.WithCancel(ctx)
			defer cancel()
			began <- struct{}{}
			<-child.Done()
			ended <- ctx.Err()
			return nil, ctx.Err()
		},
		duplex: func(s pb.TestService_FullDuplexCallServer) error {
			began <- struct{}{}
			_, err := s.Recv()
			ended <- s.Context().Err()
			return err
		},
	}
	eachPairing(t, svc, func(t *testing.T, c pb.TestServiceClient) {
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			<-began
			cancel()
		}()
		_, err := c.UnaryCall(ctx, &pb.SimpleRequest{})
		wantCode(t, err, codes.Canceled)
		if err := <-ended; err != context.Canceled {
			t.Fatal(err)
		}
		ctx, cancel = context.WithCancel(context.Background())
		s, err := c.FullDuplexCall(ctx)
		if err != nil {
			t.Fatal(err)
		}
		<-began
		cancel()
		_, err = s.Recv()
		wantCode(t, err, codes.Canceled)
		if err := <-ended; err != context.Canceled {
			t.Fatal(err)
		}
	})
}

func TestUnimplemented(t *testing.T) {
	eachPairing(t, &testService{}, func(t *testing.T, c pb.TestServiceClient) {
		_, err := c.UnimplementedCall(ctxFor(t), &pb.Empty{})
		wantCode(t, err, codes.Unimplemented)
		_, err = c.CacheableUnaryCall(ctxFor(t), &pb.SimpleRequest{})
		wantCode(t, err, codes.Unimplemented)
	})
	_, addr := startTarn(t, &testService{})
	for _, method := range []string{"/no.Such/Method", "/bad", "/grpc.testing.TestService/Nothing"} {
		err := dialTarn(t, addr).Invoke(ctxFor(t), method, &pb.Empty{}, &pb.Empty{})
		wantCode(t, err, codes.Unimplemented)
		err = dialGRPC(t, addr).Invoke(ctxFor(t), method, &pb.Empty{}, &pb.Empty{})
		wantCode(t, err, codes.Unimplemented)
	}
}

func TestPanicEndsTheCall(t *testing.T) {
	svc := &testService{
		unary:  func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) { panic("unary secret") },
		duplex: func(pb.TestService_FullDuplexCallServer) error { panic("stream secret") },
	}
	type report struct {
		method, stack string
		value         any
	}
	reports := make(chan report, 10)
	_, addr := startTarn(t, svc, rpc.PanicHandler(func(method string, value any, stack []byte) {
		reports <- report{method, string(stack), value}
	}))
	c := pb.NewTestServiceClient(dialTarn(t, addr))
	_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{})
	wantCode(t, err, codes.Internal)
	if strings.Contains(err.Error(), "secret") {
		t.Fatal("the panic's value was sent to the client")
	}
	if r := <-reports; r.method != "/grpc.testing.TestService/UnaryCall" || r.value != "unary secret" || !strings.Contains(r.stack, "behaviour_test") {
		t.Fatalf("%+v", r)
	}
	s, err := c.FullDuplexCall(ctxFor(t))
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Recv()
	wantCode(t, err, codes.Internal)
	<-reports
	// Other calls succeed.
	if _, err := c.EmptyCall(ctxFor(t), &pb.Empty{}); err != nil {
		t.Fatal(err)
	}
}

// Without a PanicHandler, a panic and its stack are written to grpclog, for gRPC and for Connect, and so is the
// method of a handler that calls runtime.Goexit. The log's level is read when a process starts.
func TestPanicsAreLogged(t *testing.T) {
	const child = "TARN_PANICS"
	if os.Getenv(child) == "" {
		out := runChild(t, t.Name(), child+"=1", "GRPC_GO_LOG_SEVERITY_LEVEL=error")
		const service = "/grpc.testing.TestService/"
		const method = "[rpc] the handler of " + service
		for _, want := range []string{method + "UnaryCall panicked: over gRPC", method + "UnaryCall panicked: over Connect",
			method + "FullDuplexCall panicked: in a stream",
			"[rpc] the goroutine of a call of " + service + "StreamingOutputCall has ended by a panic or runtime.Goexit", "behaviour_test.go:"} {
			if !strings.Contains(out, want) {
				t.Errorf("the log does not contain %q:\n%s", want, out)
			}
		}
		return
	}
	svc := &testService{
		unary: func(_ context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			panic(in.ResponseStatus.Message)
		},
		duplex: func(pb.TestService_FullDuplexCallServer) error { panic("in a stream") },
		output: func(*pb.StreamingOutputCallRequest, pb.TestService_StreamingOutputCallServer) error {
			runtime.Goexit()
			return nil
		},
	}
	_, addr := startTarn(t, svc)
	c := pb.NewTestServiceClient(dialTarn(t, addr))
	_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{ResponseStatus: &pb.EchoStatus{Message: "over gRPC"}})
	wantCode(t, err, codes.Internal)
	_, err = pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithProtocol(rpc.Connect))).UnaryCall(ctxFor(t),
		&pb.SimpleRequest{ResponseStatus: &pb.EchoStatus{Message: "over Connect"}})
	wantCode(t, err, codes.Internal)
	s, err := c.FullDuplexCall(ctxFor(t))
	if err == nil {
		_, err = s.Recv()
	}
	wantCode(t, err, codes.Internal)
	out, err := c.StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{})
	if err == nil {
		_, err = out.Recv()
	}
	wantCode(t, err, codes.Internal)
}

// A handler's Goexit ends the call, as a panic does, and no goroutine waits for the handler.
func TestGoexitEndsTheCall(t *testing.T) {
	svc := &testService{
		unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			runtime.Goexit()
			return nil, nil
		},
		duplex: func(pb.TestService_FullDuplexCallServer) error { runtime.Goexit(); return nil },
	}
	srv, addr := startTarn(t, svc)
	c := pb.NewTestServiceClient(dialTarn(t, addr))
	_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{})
	wantCode(t, err, codes.Internal)
	s, err := c.FullDuplexCall(ctxFor(t))
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Recv()
	wantCode(t, err, codes.Internal)
	if _, err := c.EmptyCall(ctxFor(t), &pb.Empty{}); err != nil {
		t.Fatal(err)
	}
	srv.GracefulStop()
}

func TestMessageLimits(t *testing.T) {
	eachPairing(t, &testService{}, func(t *testing.T, c pb.TestServiceClient) {
		big := &pb.SimpleRequest{Payload: payload(5 << 20)}
		_, err := c.UnaryCall(ctxFor(t), big)
		wantCode(t, err, codes.ResourceExhausted)
		_, err = c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(1000)}, grpc.MaxCallSendMsgSize(999))
		wantCode(t, err, codes.ResourceExhausted)
		_, err = c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(1000)}, grpc.MaxCallRecvMsgSize(999))
		wantCode(t, err, codes.ResourceExhausted)
		_, err = c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(200000)}, grpc.MaxCallRecvMsgSize(150000))
		wantCode(t, err, codes.ResourceExhausted)
		s, err := c.StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{
			ResponseParameters: []*pb.ResponseParameters{{Size: 5 << 20}}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Recv()
		wantCode(t, err, codes.ResourceExhausted)
	})
}

func TestInterceptors(t *testing.T) {
	var order []string
	note := func(s string) { order = append(order, s) }
	us := func(name string) grpc.UnaryServerInterceptor {
		return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			note(name + info.FullMethod[strings.LastIndexByte(info.FullMethod, '/'):])
			return next(ctx, req)
		}
	}
	ss := func(name string) grpc.StreamServerInterceptor {
		return func(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			note(name)
			return next(srv, s)
		}
	}
	uc := func(name string) grpc.UnaryClientInterceptor {
		return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			note(name)
			if cc.Target() == "" || len(opts) != 2 {
				return errors.New("no target or options")
			}
			return next(ctx, method, req, reply, cc, opts...)
		}
	}
	sc := func(name string) grpc.StreamClientInterceptor {
		return func(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			note(name)
			return next(ctx, d, cc, method, opts...)
		}
	}
	_, addr := startTarn(t, &testService{}, rpc.ChainUnaryInterceptor(us("s2"), us("s3")), rpc.UnaryInterceptor(us("s1")),
		rpc.StreamInterceptor(ss("t1")), rpc.ChainStreamInterceptor(ss("t2")))
	c := pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1000)),
		rpc.WithUnaryInterceptor(uc("c1")), rpc.WithChainUnaryInterceptor(uc("c2")),
		rpc.WithChainStreamInterceptor(sc("d2"), sc("d3")), rpc.WithStreamInterceptor(sc("d1"))))
	if _, err := c.EmptyCall(ctxFor(t), &pb.Empty{}); err != nil {
		t.Fatal(err)
	}
	s, err := c.FullDuplexCall(ctxFor(t))
	if err != nil {
		t.Fatal(err)
	}
	s.CloseSend()
	if _, err := s.Recv(); err != io.EOF {
		t.Fatal(err)
	}
	want := "c1 c2 s1/EmptyCall s2/EmptyCall s3/EmptyCall d1 d2 d3 t1 t2"
	if got := strings.Join(order, " "); got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
}
