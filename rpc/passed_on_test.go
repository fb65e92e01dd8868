package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
)

// Tests of what interceptors pass on, and of default call options.

// protocols are those of a client.
var protocols = []rpc.Protocol{rpc.GRPC, rpc.GRPCWeb, rpc.Connect}

// answersAs is a service that answers with its name and the token of the call.
func answersAs(name string) *testService {
	return &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		return &pb.SimpleResponse{Username: name + fmt.Sprint(md["token"])}, nil
	}, output: func(_ *pb.StreamingOutputCallRequest, s pb.TestService_StreamingOutputCallServer) error {
		md, _ := metadata.FromIncomingContext(s.Context())
		return s.Send(&pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: []byte(name + fmt.Sprint(md["token"]))}})
	}}
}

// answers are those of a unary call and of a stream.
func answers(t *testing.T, cc grpc.ClientConnInterface, n int) [2]string {
	t.Helper()
	c := pb.NewTestServiceClient(cc)
	r, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(n)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{Payload: payload(n)})
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return [2]string{r.Username, string(m.Payload.Body)}
}

type openToken string

func (k openToken) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"token": string(k)}, nil
}

func (openToken) RequireTransportSecurity() bool { return false }

// TestInterceptorStripsDefaults: default call options that an interceptor does not pass on do not apply, in particular credentials do not
// leave the process. Options that it puts in their place do.
func TestInterceptorStripsDefaults(t *testing.T) {
	_, addr := startTarn(t, answersAs("one"))
	for _, instead := range []grpc.CallOption{grpc.EmptyCallOption{}, grpc.PerRPCCredentials(openToken("other"))} {
		want := "one[]"
		if _, ok := instead.(grpc.PerRPCCredsCallOption); ok {
			want = "one[other]"
		}
		unary := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if len(opts) != 4 { // a generated stub adds one
				t.Errorf("the interceptor got %d options", len(opts))
			}
			return next(ctx, method, req, reply, cc, instead)
		}
		stream := func(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return next(ctx, d, cc, method, instead)
		}
		finished := 0
		defaults := []grpc.CallOption{grpc.PerRPCCredentials(openToken("secret")), grpc.MaxCallSendMsgSize(10), grpc.OnFinish(func(error) { finished++ })}
		for _, p := range protocols {
			cc := dialTarn(t, addr, rpc.WithProtocol(p), rpc.WithDefaultCallOptions(defaults...), rpc.WithUnaryInterceptor(unary), rpc.WithStreamInterceptor(stream))
			for name, conn := range stockConns(t, cc, grpc.WithTransportCredentials(insecure.NewCredentials())) {
				if got := answers(t, conn, 50); got != [2]string{want, want} {
					t.Errorf("%v, %s: the server got %v, want %s", p, name, got, want)
				}
			}
			if got := answers(t, cc, 50); got != [2]string{want, want} {
				t.Errorf("%v: the server got %v, want %s", p, got, want)
			}
		}
		if finished > 0 {
			t.Errorf("OnFinish ran %d times", finished)
		}
	}
}

// TestInterceptorPassesAnotherConn: a call goes to the ClientConn that an interceptor passes on, in front of a client of this package and in
// front of a portal, whatever carries that ClientConn.
func TestInterceptorPassesAnotherConn(t *testing.T) {
	faultnet.NeedsTCP(t, "clients of grpc-go take part")
	_, one := startTarn(t, answersAs("one"))
	_, two := startTarn(t, answersAs("two"))
	for name, other := range map[string]*grpc.ClientConn{"grpc": dialGRPC(t, two), "AsGRPC": rpc.AsGRPC(dialTarn(t, two))} {
		unary := func(ctx context.Context, method string, req, reply any, _ *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return next(ctx, method, req, reply, other, opts...)
		}
		stream := func(ctx context.Context, d *grpc.StreamDesc, _ *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return next(ctx, d, other, method, opts...)
		}
		for _, p := range protocols {
			cc := dialTarn(t, one, rpc.WithProtocol(p), rpc.WithUnaryInterceptor(unary), rpc.WithStreamInterceptor(stream))
			conns := map[string]grpc.ClientConnInterface{"client": cc}
			for name, conn := range stockConns(t, cc, grpc.WithTransportCredentials(insecure.NewCredentials())) {
				conns[name] = conn
			}
			for name, conn := range stockConns(t, dialTarn(t, one, rpc.WithProtocol(p)), grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithUnaryInterceptor(unary), grpc.WithStreamInterceptor(stream)) {
				if name == "DialOptions" {
					conns["interceptors before DialOptions"] = conn
				}
			}
			for from, conn := range conns {
				if got := answers(t, conn, 1); got != [2]string{"two[]", "two[]"} {
					t.Errorf("%v, %s, by way of %s: the calls went to %v", p, from, name, got)
				}
			}
		}
	}
}

// TestOneDialOptionsForSeveral: DialOptions may be used for several ClientConns, of which one is closed: its calls fail, and the others' do
// not.
func TestOneDialOptionsForSeveral(t *testing.T) {
	_, addr := startTarn(t, answersAs("one"))
	for _, p := range protocols {
		opts := rpc.DialOptions(dialTarn(t, addr, rpc.WithProtocol(p)))
		var conns []*grpc.ClientConn
		for range 2 {
			conn, err := grpc.NewClient("passthrough:///x", opts...)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conns = append(conns, conn)
			answers(t, conn, 1)
		}
		conns[0].Close()
		finished := 0
		finish := grpc.OnFinish(func(err error) {
			wantCode(t, err, codes.Canceled)
			finished++
		})
		c := pb.NewTestServiceClient(conns[0])
		_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}, finish)
		wantCode(t, err, codes.Canceled)
		_, err = c.StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{}, finish)
		wantCode(t, err, codes.Canceled)
		if finished != 2 {
			t.Errorf("%v: OnFinish ran %d times", p, finished)
		}
		answers(t, conns[1], 1)
	}
}

// passing are interceptors that change nothing.
func passing() []rpc.DialOption {
	return []rpc.DialOption{
		rpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			return next(ctx, method, req, reply, cc, opts...)
		}),
		rpc.WithStreamInterceptor(func(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return next(ctx, d, cc, method, opts...)
		}),
	}
}

// TestDefaultOnFinish: OnFinish among the default options runs once for each call, also for those of a closed client.
func TestDefaultOnFinish(t *testing.T) {
	_, addr := startTarn(t, answersAs("one"))
	for _, p := range protocols {
		for name, extra := range map[string][]rpc.DialOption{"alone": nil, "interceptors": passing()} {
			finished := 0
			cc := dialTarn(t, addr, append(extra, rpc.WithProtocol(p), rpc.WithDefaultCallOptions(grpc.OnFinish(func(error) { finished++ })))...)
			conns := []grpc.ClientConnInterface{cc}
			for _, conn := range stockConns(t, cc, grpc.WithTransportCredentials(insecure.NewCredentials())) {
				conns = append(conns, conn)
			}
			for _, conn := range conns {
				finished = 0
				c := pb.NewTestServiceClient(conn)
				_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{})
				wantCode(t, err, codes.OK)
				s, err := c.FullDuplexCall(ctxFor(t))
				if err == nil {
					s.CloseSend()
					_, err = s.Recv()
				}
				if finished != 2 {
					t.Errorf("%v, %s, %T: OnFinish ran %d times for two calls (%v)", p, name, conn, finished, err)
				}
			}
			cc.Close()
			finished = 0
			c := pb.NewTestServiceClient(cc)
			_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{})
			wantCode(t, err, codes.Canceled)
			_, err = c.FullDuplexCall(ctxFor(t))
			wantCode(t, err, codes.Canceled)
			if finished != 2 {
				t.Errorf("%v, %s: OnFinish ran %d times for two calls of a closed client", p, name, finished)
			}
		}
	}
}

// TestDefaultLendResponse: LendResponse has one variable, and so belongs to single calls.
func TestDefaultLendResponse(t *testing.T) {
	for _, p := range protocols {
		var release func()
		cc, err := rpc.NewClient("localhost:1", rpc.WithTransportCredentials(insecure.NewCredentials()), rpc.WithProtocol(p), rpc.WithDefaultCallOptions(rpc.LendResponse(&release)))
		if !errors.Is(err, rpc.ErrCallOption) {
			t.Errorf("%v: %v", p, err)
			if cc != nil {
				cc.Close()
			}
		}
	}
}

// TestLendResponseInvokedTwice: an interceptor that calls its invoker twice, one after the other or at once, leaks nothing, and the response
// that counts is intact until release.
func TestLendResponseInvokedTwice(t *testing.T) {
	_, addr := startTarn(t, &testService{})
	twice := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if err := next(ctx, method, req, &pb.SimpleResponse{}, cc, opts...); err != nil {
			return err
		}
		var wg sync.WaitGroup
		wg.Go(func() { _ = next(ctx, method, req, &pb.SimpleResponse{}, cc, opts...) })
		defer wg.Wait()
		return next(ctx, method, req, reply, cc, opts...)
	}
	for _, p := range protocols {
		c := pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithProtocol(p), rpc.WithUnaryInterceptor(twice)))
		var release func()
		opt := rpc.LendResponse(&release) // used for several calls
		for range 3 {
			out, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(100000)}, opt)
			if err != nil || !bytes.Equal(out.Payload.GetBody(), body(100000)) {
				t.Fatal(err)
			}
			release()
		}
	}
}

// TestLendResponseReleasedBeforeALateCall: a call that an interceptor leaves behind, and that ends after release, keeps no memory.
func TestLendResponseReleasedBeforeALateCall(t *testing.T) {
	begun, proceed := make(chan struct{}, 1), make(chan struct{})
	svc := &testService{unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		if in.FillUsername {
			begun <- struct{}{}
			<-proceed
		}
		return &pb.SimpleResponse{Payload: in.Payload}, nil
	}}
	_, addr := startTarn(t, svc)
	late := make(chan error, 1)
	leaves := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		go func() {
			late <- next(ctx, method, &pb.SimpleRequest{Payload: payload(100000), FillUsername: true}, &pb.SimpleResponse{}, cc, opts...)
		}()
		<-begun
		return next(ctx, method, req, reply, cc, opts...)
	}
	c := pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithUnaryInterceptor(leaves)))
	var release func()
	out, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(100000)}, rpc.LendResponse(&release))
	if err != nil || !bytes.Equal(out.Payload.GetBody(), body(100000)) {
		t.Fatal(err)
	}
	release()
	close(proceed)
	if err := <-late; err != nil {
		t.Error(err)
	}
}

// TestRoundTripperFacade: a client of WithRoundTripper has no transport credentials, and works with interceptors and as a ClientConn of
// grpc-go.
func TestRoundTripperFacade(t *testing.T) {
	faultnet.NeedsTCP(t, "net/http dials")
	_, addr := startTarn(t, answersAs("one"))
	for _, p := range []rpc.Protocol{rpc.GRPCWeb, rpc.Connect} {
		calls, err := rpc.NewCallLog("*", &logSink{})
		if err != nil {
			t.Fatal(err)
		}
		for name, extra := range map[string][]rpc.DialOption{"alone": nil, "interceptors": passing(), "log": {rpc.WithBinaryLog(calls)}} {
			rt := &http.Transport{}
			cc, err := rpc.NewClient("http://"+addr, append(extra, rpc.WithPool(tarntest.NewPool(t)), rpc.WithProtocol(p), rpc.WithRoundTripper(rt))...)
			if err != nil {
				t.Fatal(err)
			}
			conns := []grpc.ClientConnInterface{cc}
			for _, conn := range stockConns(t, cc) {
				conns = append(conns, conn)
			}
			for _, conn := range conns {
				if got := answers(t, conn, 1); got != [2]string{"one[]", "one[]"} {
					t.Errorf("%v, %s, %T: %v", p, name, conn, got)
				}
			}
			cc.Close()
			rt.CloseIdleConnections()
		}
	}
}

// TestTheLastCompressorCounts: a compressor that is not registered fails a call, unless an option behind it sets another; among default options,
// too.
func TestTheLastCompressorCounts(t *testing.T) {
	_, addr := startTarn(t, answersAs("one"))
	for _, p := range protocols {
		c := pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithProtocol(p), rpc.WithDefaultCallOptions(grpc.UseCompressor("unheard-of"))))
		_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{})
		wantCode(t, err, codes.Internal)
		_, err = c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}, grpc.UseCompressor("identity"))
		wantCode(t, err, codes.OK)
	}
}
