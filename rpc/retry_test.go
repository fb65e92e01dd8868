package rpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const retryConfig = `{"methodConfig":[{"name":[{"service":"grpc.testing.TestService"}],
	"retryPolicy":{"maxAttempts":4,"initialBackoff":"0.001s","maxBackoff":"0.01s","backoffMultiplier":2,
	"retryableStatusCodes":["UNAVAILABLE","ABORTED"]}}]}`

// flaky fails the first calls of each kind.
func flaky(failures int32, code codes.Code) (*testService, *atomic.Int32) {
	var n atomic.Int32
	fail := func(ctx context.Context) error {
		md, _ := metadata.FromIncomingContext(ctx)
		tried := n.Add(1) - 1
		if got := md.Get("grpc-previous-rpc-attempts"); tried > 0 && (len(got) != 1 || got[0] != string('0'+byte(tried))) {
			return status.Errorf(codes.Internal, "attempt %d says %q", tried, got)
		}
		if tried < failures {
			return status.Error(code, "try again")
		}
		return nil
	}
	return &testService{
		unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			return &pb.SimpleResponse{Payload: in.Payload}, fail(ctx)
		},
		duplex: func(s pb.TestService_FullDuplexCallServer) error {
			for range 2 {
				if _, err := s.Recv(); err != nil {
					return err
				}
			}
			if err := fail(s.Context()); err != nil {
				return err
			}
			return s.Send(&pb.StreamingOutputCallResponse{Payload: payload(5)})
		},
	}, &n
}

func TestRetryPolicy(t *testing.T) {
	svc, n := flaky(2, codes.Unavailable)
	_, addr := startTarn(t, svc)
	c := pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithDefaultServiceConfig(retryConfig)))
	if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(100)}); err != nil || n.Load() != 3 {
		t.Fatal(n.Load(), err)
	}
	n.Store(0)
	s, err := c.FullDuplexCall(ctxFor(t))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Send(&pb.StreamingOutputCallRequest{Payload: payload(1000)}); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := s.Recv(); err != nil || len(out.Payload.Body) != 5 {
		t.Fatal(out, err)
	}
	if _, err := s.Recv(); err != io.EOF || n.Load() != 3 {
		t.Fatal(n.Load(), err)
	}
}

func TestRetryGivesUp(t *testing.T) {
	svc, n := flaky(100, codes.Aborted)
	_, addr := startTarn(t, svc)
	policy := rpc.RetryPolicy{MaxAttempts: 3, InitialBackoff: time.Millisecond, MaxBackoff: time.Millisecond,
		BackoffMultiplier: 1, RetryableStatusCodes: []codes.Code{codes.Aborted}}
	_, err := pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithRetryPolicy(policy))).UnaryCall(ctxFor(t), &pb.SimpleRequest{})
	wantCode(t, err, codes.Aborted)
	if n.Load() != 3 {
		t.Fatalf("%d attempts", n.Load())
	}
	for _, opts := range [][]rpc.DialOption{
		{},
		{rpc.WithRetryPolicy(policy), rpc.WithDisableRetry()},
	} {
		n.Store(0)
		_, err := pb.NewTestServiceClient(dialTarn(t, addr, opts...)).UnaryCall(ctxFor(t), &pb.SimpleRequest{})
		wantCode(t, err, codes.Aborted)
		if n.Load() != 1 {
			t.Fatalf("%d attempts without a policy", n.Load())
		}
	}
}

// TestRetryThrottled: when so many calls have failed that half of the throttle's tokens are gone, calls are not tried again
// until others have succeeded (gRFC A6).
func TestRetryThrottled(t *testing.T) {
	svc, n := flaky(100, codes.Unavailable)
	_, addr := startTarn(t, svc)
	c := pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithDefaultServiceConfig(`{"retryThrottling":{"maxTokens":4,"tokenRatio":1},`+retryConfig[1:])))
	for i, want := range []int32{2, 1, 1} { // after two failures two of four tokens are left
		n.Store(0)
		_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{})
		wantCode(t, err, codes.Unavailable)
		if n.Load() != want {
			t.Fatalf("call %d: %d attempts, want %d", i, n.Load(), want)
		}
	}
	for range 4 { // each returns a token
		if _, err := c.EmptyCall(ctxFor(t), &pb.Empty{}); err != nil {
			t.Fatal(err)
		}
	}
	n.Store(0)
	_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{})
	if wantCode(t, err, codes.Unavailable); n.Load() != 2 {
		t.Errorf("%d attempts, want 2, after calls that succeeded", n.Load())
	}
}

// TestContextEndsRetries: a stream whose caller has asked for its context is not tried again, as in grpc-go.
func TestContextEndsRetries(t *testing.T) {
	svc, n := flaky(2, codes.Unavailable)
	_, addr := startTarn(t, svc)
	for name, cc := range map[string]grpc.ClientConnInterface{
		"tarn":    dialTarn(t, addr, rpc.WithDefaultServiceConfig(retryConfig)),
		"grpc-go": dialGRPC(t, addr, grpc.WithDefaultServiceConfig(retryConfig)),
	} {
		n.Store(0)
		s, err := pb.NewTestServiceClient(cc).FullDuplexCall(ctxFor(t))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := s.Send(&pb.StreamingOutputCallRequest{}); err != nil {
				t.Fatal(err)
			}
			_ = s.Context()
		}
		_, err = s.Recv()
		if wantCode(t, err, codes.Unavailable); n.Load() != 1 {
			t.Errorf("%s: %d attempts", name, n.Load())
		}
	}
}

// TestRetryPushback: a server's grpc-retry-pushback-ms is a 32-bit number of milliseconds; a negative one and anything else mean that the
// call is not tried again (gRFC A6).
func TestRetryPushback(t *testing.T) {
	var n atomic.Int32
	var asks []string
	fail := func(ctx context.Context) error {
		n.Add(1)
		if err := grpc.SetTrailer(ctx, metadata.MD{"grpc-retry-pushback-ms": asks}); err != nil {
			return err
		}
		return status.Error(codes.Unavailable, "do not")
	}
	svc := &testService{
		unary:  func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) { return nil, fail(ctx) },
		duplex: func(s pb.TestService_FullDuplexCallServer) error { return fail(s.Context()) },
	}
	_, addr := startTarn(t, svc)
	c := pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithDefaultServiceConfig(retryConfig)))
	for _, p := range []struct {
		asks     []string
		attempts int32
	}{
		{nil, 4},
		{[]string{"0"}, 4},
		{[]string{"-1"}, 1},
		{[]string{""}, 1},
		{[]string{"1s"}, 1},
		{[]string{"0", "0"}, 1},
		{[]string{"9223372036855"}, 1}, // its nanoseconds overflow
		{[]string{"99999999999999999999"}, 1},
	} {
		asks = p.asks
		n.Store(0)
		_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{})
		if wantCode(t, err, codes.Unavailable); n.Load() != p.attempts {
			t.Errorf("unary, %q: %d attempts, want %d", p.asks, n.Load(), p.attempts)
		}
		n.Store(0)
		s, err := c.FullDuplexCall(ctxFor(t))
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Recv()
		if wantCode(t, err, codes.Unavailable); n.Load() != p.attempts {
			t.Errorf("stream, %q: %d attempts, want %d", p.asks, n.Load(), p.attempts)
		}
	}
}

// TestPushbackThrottles: a server that asks not to be tried again counts as a failure for the client's throttle, whatever the status
// and whether or not the method has a policy, as in grpc-go.
func TestPushbackThrottles(t *testing.T) {
	const config = `{"retryThrottling":{"maxTokens":8,"tokenRatio":0.1},"methodConfig":[{"name":[{"service":"grpc.testing.TestService","method":"FullDuplexCall"}],
		"retryPolicy":{"maxAttempts":2,"initialBackoff":"0.001s","maxBackoff":"0.01s","backoffMultiplier":2,"retryableStatusCodes":["UNAVAILABLE"]}}]}`
	var n atomic.Int32
	refuse := func(ctx context.Context) error {
		if err := grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", "-1")); err != nil {
			return err
		}
		return status.Error(codes.NotFound, "and do not ask again")
	}
	svc := &testService{
		unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) { return nil, refuse(ctx) },
		output: func(_ *pb.StreamingOutputCallRequest, s pb.TestService_StreamingOutputCallServer) error {
			return refuse(s.Context())
		},
		duplex: func(pb.TestService_FullDuplexCallServer) error {
			n.Add(1)
			return status.Error(codes.Unavailable, "try again")
		},
	}
	_, addr := startTarn(t, svc)
	failing := func(t *testing.T, c pb.TestServiceClient, want int32) {
		n.Store(0)
		s, err := c.FullDuplexCall(ctxFor(t))
		if err == nil {
			_, err = s.Recv()
		}
		if wantCode(t, err, codes.Unavailable); n.Load() != want {
			t.Errorf("%d attempts, want %d", n.Load(), want)
		}
	}
	clients := map[string]func() grpc.ClientConnInterface{
		"tarn":    func() grpc.ClientConnInterface { return dialTarn(t, addr, rpc.WithDefaultServiceConfig(config)) },
		"grpc-go": func() grpc.ClientConnInterface { return dialGRPC(t, addr, grpc.WithDefaultServiceConfig(config)) },
	}
	refused := map[string]func(context.Context, pb.TestServiceClient) error{
		"unary": func(ctx context.Context, c pb.TestServiceClient) error {
			_, err := c.UnaryCall(ctx, &pb.SimpleRequest{})
			return err
		},
		"stream": func(ctx context.Context, c pb.TestServiceClient) error {
			s, err := c.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
			if err == nil {
				_, err = s.Recv()
			}
			return err
		},
	}
	for name, dial := range clients {
		for kind, call := range refused {
			t.Run(name+"/"+kind, func(t *testing.T) {
				c := pb.NewTestServiceClient(dial())
				failing(t, c, 2) // leaves six of eight tokens
				wantCode(t, call(ctxFor(t), c), codes.NotFound)
				failing(t, c, 1) // leaves half of them
			})
		}
	}
}

func TestServiceConfig(t *testing.T) {
	for _, bad := range []string{"{", `{"x":1}`, `{"loadBalancingPolicy":"grpclb"}`, `{"methodConfig":[{"name":[{"method":"m"}]}]}`,
		`{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":1}}]}`, `{"methodConfig":[{"name":[{}],"timeout":"5m"}]}`,
		`{"retryThrottling":{"maxTokens":0}}`} {
		if _, err := rpc.NewClient("x:1", rpc.WithDefaultServiceConfig(bad)); err == nil {
			t.Errorf("%s accepted", bad)
		}
	}
	svc := &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	config := rpc.WithDefaultServiceConfig(
		`{"methodConfig":[{"name":[{"service":"grpc.testing.TestService","method":"UnaryCall"}],"timeout":"0.03s","maxRequestMessageBytes":50}]}`)
	inBubble(t, svc, []rpc.DialOption{config}, func(t *testing.T, c pb.TestServiceClient) {
		begun := time.Now()
		_, err := c.UnaryCall(t.Context(), &pb.SimpleRequest{})
		if wantCode(t, err, codes.DeadlineExceeded); time.Since(begun) != 30*time.Millisecond {
			t.Errorf("ended after %v", time.Since(begun))
		}
		_, err = c.UnaryCall(t.Context(), &pb.SimpleRequest{Payload: payload(100)})
		wantCode(t, err, codes.ResourceExhausted)
	})
}

// A server first refuses a stream and then fails every call: the refusal does not count, the failures do.
func TestRetryAfterRefusal(t *testing.T) {
	var n atomic.Int32
	addr := rawServer(t, func(p *rawPeer, id uint32) {
		if n.Add(1) == 1 {
			p.fr.WriteRSTStream(id, http2.ErrCodeRefusedStream)
			return
		}
		p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndHeaders: true, EndStream: true,
			BlockFragment: p.block(":status", "200", "content-type", "application/grpc", "grpc-status", "14")})
	})
	_, err := pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithDefaultServiceConfig(retryConfig))).UnaryCall(ctxFor(t), &pb.SimpleRequest{})
	wantCode(t, err, codes.Unavailable)
	if n.Load() != 1+4 {
		t.Fatalf("%d attempts, want the refused one and 4", n.Load())
	}
}

// A server accepts one call at a time: the second waits in the client.
func TestMaxConcurrentStreams(t *testing.T) {
	began, release := make(chan struct{}, 2), make(chan struct{})
	svc := &testService{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		began <- struct{}{}
		<-release
		return &pb.SimpleResponse{}, nil
	}}
	_, addr := startTarn(t, svc, rpc.MaxConcurrentStreams(1))
	for _, cc := range []grpc.ClientConnInterface{dialTarn(t, addr), dialGRPC(t, addr)} {
		c := pb.NewTestServiceClient(cc)
		got := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{})
				got <- err
			}()
		}
		<-began
		select {
		case <-began:
			t.Fatal("two calls at once")
		case <-time.After(20 * time.Millisecond):
		}
		release <- struct{}{}
		<-began
		release <- struct{}{}
		for range 2 {
			if err := <-got; err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestRetryAfterSendGaveUp: when SendMsg has returned io.EOF because the throttle allows no other attempt, RecvMsg makes none
// either, although other calls have succeeded meanwhile. The caller has stopped to send: the server would take the messages so
// far for all.
func TestRetryAfterSendGaveUp(t *testing.T) {
	var n atomic.Int32
	svc := &testService{duplex: func(s pb.TestService_FullDuplexCallServer) error {
		if n.Add(1) <= 2 {
			return status.Error(codes.Unavailable, "try again")
		}
		return echoStream(s)
	}}
	_, addr := startTarn(t, svc)
	c := pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithDefaultServiceConfig(`{"retryThrottling":{"maxTokens":4,"tokenRatio":2},`+retryConfig[1:])))
	s, err := c.FullDuplexCall(ctxFor(t))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		err = s.Send(&pb.StreamingOutputCallRequest{})
	}
	if err != io.EOF || n.Load() != 2 {
		t.Fatalf("%v after %d attempts", err, n.Load())
	}
	if _, err := c.EmptyCall(ctxFor(t), &pb.Empty{}); err != nil { // returns two of the tokens
		t.Fatal(err)
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	for err = nil; err == nil; {
		_, err = s.Recv()
	}
	wantCode(t, err, codes.Unavailable)
	if n.Load() != 2 {
		t.Errorf("%d attempts", n.Load())
	}
}

// TestEndsBeforeTheNextAttempt: a call whose deadline passes, or that is cancelled, while it waits for the time of another attempt ends for
// that reason and not with the last attempt's status, as with grpc-go.
func TestEndsBeforeTheNextAttempt(t *testing.T) {
	const config = `{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":3,"initialBackoff":"3600s","maxBackoff":"3600s",` +
		`"backoffMultiplier":1,"retryableStatusCodes":["UNAVAILABLE","RESOURCE_EXHAUSTED"]}}]}`
	for _, code := range []codes.Code{codes.Unavailable, codes.ResourceExhausted} {
		svc := &testService{
			unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
				return nil, status.Error(code, "later")
			},
			output: func(*pb.StreamingOutputCallRequest, pb.TestService_StreamingOutputCallServer) error {
				return status.Error(code, "later")
			},
		}
		t.Run("grpc-go/"+code.String(), func(t *testing.T) {
			inBubble(t, svc, nil, func(t *testing.T, _ pb.TestServiceClient) {
				l := newPipes()
				s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true))
				pb.RegisterTestServiceServer(s, svc)
				go s.Serve(l)
				defer s.Stop()
				cc := dialGRPC(t, "passthrough:///svc", grpc.WithContextDialer(l.dial), grpc.WithDefaultServiceConfig(config))
				defer cc.Close()
				endsWaiting(t, pb.NewTestServiceClient(cc))
			})
		})
		for _, p := range []rpc.Protocol{rpc.GRPC, rpc.GRPCWeb, rpc.Connect} {
			t.Run(p.String()+"/"+code.String(), func(t *testing.T) {
				inBubble(t, svc, []rpc.DialOption{rpc.WithProtocol(p), rpc.WithDefaultServiceConfig(config)}, func(t *testing.T, c pb.TestServiceClient) {
					endsWaiting(t, c)
				})
			})
		}
	}
}

// endsWaiting makes calls that end while they wait.
func endsWaiting(t *testing.T, c pb.TestServiceClient) {
	for _, want := range []codes.Code{codes.DeadlineExceeded, codes.Canceled} {
		begin := func() context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			t.Cleanup(cancel)
			if want == codes.Canceled {
				time.AfterFunc(time.Minute, cancel)
			}
			return ctx
		}
		_, err := c.UnaryCall(begin(), &pb.SimpleRequest{})
		wantCode(t, err, want)
		s, err := c.StreamingOutputCall(begin(), &pb.StreamingOutputCallRequest{})
		if err == nil {
			_, err = s.Recv()
		}
		wantCode(t, err, want)
	}
}

// TestWaitForReadyEndsWithItsContext: a call that waits for a server which cannot be reached ends with its deadline, or when it is
// cancelled, and says why it has waited.
func TestWaitForReadyEndsWithItsContext(t *testing.T) {
	for _, p := range []rpc.Protocol{rpc.GRPC, rpc.GRPCWeb, rpc.Connect} {
		t.Run(p.String(), func(t *testing.T) {
			dial := func(context.Context, string) (net.Conn, error) { return nil, errors.New("the reason") }
			inBubble(t, &testService{}, []rpc.DialOption{rpc.WithProtocol(p), rpc.WithContextDialer(dial)}, func(t *testing.T, c pb.TestServiceClient) {
				for _, want := range []codes.Code{codes.DeadlineExceeded, codes.Canceled} {
					for _, kind := range triedKinds {
						if p != rpc.GRPC && kind.sent && kind.back { // needs HTTP/2, and the pipes have HTTP/1.1
							continue
						}
						ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
						defer cancel()
						if want == codes.Canceled {
							time.AfterFunc(time.Minute, cancel)
						}
						err := kind.do(ctx, c, grpc.WaitForReady(true))
						if wantCode(t, err, want); !strings.Contains(err.Error(), "the reason") {
							t.Errorf("%s: the error is %v", kind.name, err)
						}
					}
				}
			})
		})
	}
}
