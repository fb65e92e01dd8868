package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
)

// TestHedging: when attempts are sent and what the call's status is (gRFC A6). A call
// returns when its attempts have ended.
func TestHedging(t *testing.T) {
	for _, c := range hedgingScenes {
		t.Run(c.name, func(t *testing.T) {
			l, count := newHedgeLog(c.script...), &attemptCount{}
			inBubble(t, l, append(hedging(c.policy), rpc.WithStatsHandler(count)), func(t *testing.T, cl pb.TestServiceClient) {
				c.play(t, l, count, cl, c.hedgingResult)
			})
		})
	}
}

// TestHedgingCancelsTheOthers: when a call commits to an attempt, the others are reset with CANCEL.
func TestHedgingCancelsTheOthers(t *testing.T) {
	for _, code := range []string{"0", "5"} { // OK, and one that is fatal
		t.Run(code, func(t *testing.T) {
			var first uint32
			reset := make(chan http2.ErrCode, 1)
			addr := rawServer(t, func(p *rawPeer, id uint32) {
				if first == 0 {
					first = id
					return
				}
				p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndHeaders: true, EndStream: true,
					BlockFragment: p.block(":status", "200", "content-type", "application/grpc", "grpc-status", code)})
				for {
					f, err := p.fr.ReadFrame()
					if err != nil {
						close(reset)
						return
					}
					if f, ok := f.(*http2.RSTStreamFrame); ok && f.StreamID == first {
						reset <- f.ErrCode
						return
					}
				}
			})
			cc := dialTarn(t, addr, hedging(`{"maxAttempts":2,"nonFatalStatusCodes":["UNAVAILABLE"]}`)...)
			want := codes.NotFound
			if code == "0" {
				want = codes.Internal // the answer has no message
			}
			_, err := pb.NewTestServiceClient(cc).UnaryCall(ctxFor(t), &pb.SimpleRequest{})
			wantCode(t, err, want)
			if got, ok := <-reset; !ok || got != http2.ErrCodeCancel {
				t.Errorf("the other attempt was reset with %v, %v", got, ok)
			}
		})
	}
}

// sentCall makes a call that sends a payload and gets it back.
func sentCall(ctx context.Context, c pb.TestServiceClient, kind string) error {
	want := payload(3000)
	if kind == "unary" {
		out, err := c.UnaryCall(ctx, &pb.SimpleRequest{Payload: want})
		if err == nil && string(out.Payload.Body) != string(want.Body) {
			err = errors.New("another payload came back")
		}
		return err
	}
	s, err := c.FullDuplexCall(ctx)
	if err != nil {
		return err
	}
	for range 3 {
		if err := s.Send(&pb.StreamingOutputCallRequest{Payload: want}); err != nil && err != io.EOF {
			return err
		}
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	for n := 0; ; n++ {
		out, err := s.Recv()
		switch {
		case err == io.EOF && n == 3:
			return nil
		case err != nil:
			return err
		case string(out.Payload.Body) != string(want.Body):
			return errors.New("another payload came back")
		}
	}
}

// While the client's calls fail, only the first attempt is sent.
func TestHedgingThrottled(t *testing.T) {
	l := newHedgeLog(after(0, codes.Unavailable))
	opts := []rpc.DialOption{rpc.WithDefaultServiceConfig(`{"retryThrottling":{"maxTokens":4,"tokenRatio":1},
		"methodConfig":[{"name":[{}],"hedgingPolicy":` + hedgeThree + `}]}`)}
	inBubble(t, l, opts, func(t *testing.T, c pb.TestServiceClient) {
		// 4 tokens: two failures leave 2, which is not above half.
		for i, want := range []string{"[0s 0s]", "[0s]"} {
			wantCode(t, sentCall(t.Context(), c, "unary"), codes.Unavailable)
			if got := l.times(); got != want {
				t.Errorf("call %d: attempts at %v, want %v", i, got, want)
			}
			l.at, l.begin = nil, time.Now()
		}
		l.script = []func(context.Context) error{after(2*time.Second, codes.OK)}
		if err := sentCall(t.Context(), c, "unary"); err != nil {
			t.Fatal(err)
		}
		if got := l.times(); got != "[0s]" {
			t.Errorf("attempts at %v while throttled", got)
		}
		l.at = nil
		for range 3 { // each success returns a token, as that of the last call did
			l.script = []func(context.Context) error{after(0, codes.OK)}
			if err := sentCall(t.Context(), c, "unary"); err != nil {
				t.Fatal(err)
			}
		}
		l.at, l.script = nil, []func(context.Context) error{never, after(0, codes.OK)}
		if err := sentCall(t.Context(), c, "unary"); err != nil {
			t.Fatal(err)
		}
		if got := l.times(); got != "[0s 1s]" {
			t.Errorf("attempts at %v after successful calls", got)
		}
	})
}

// Invalid policies are refused.
func TestHedgingPolicyChecked(t *testing.T) {
	retry := rpc.RetryPolicy{MaxAttempts: 2, InitialBackoff: 1, MaxBackoff: 1, BackoffMultiplier: 1, RetryableStatusCodes: []codes.Code{codes.Aborted}}
	for _, opts := range [][]rpc.DialOption{
		hedging(`{"maxAttempts":1}`), hedging(`{}`), hedging(`{"maxAttempts":2,"hedgingDelay":"-1s"}`), hedging(`{"maxAttempts":2,"nonFatalStatusCodes":["NONE"]}`),
		hedging(`{"maxAttempts":2},"retryPolicy":{"maxAttempts":4,"initialBackoff":"0.1s","maxBackoff":"1s","backoffMultiplier":2,"retryableStatusCodes":["ABORTED"]}`),
		{rpc.WithHedgingPolicy(rpc.HedgingPolicy{MaxAttempts: 1})},
		{rpc.WithHedgingPolicy(rpc.HedgingPolicy{MaxAttempts: 2, HedgingDelay: -1})},
		{rpc.WithHedgingPolicy(rpc.HedgingPolicy{MaxAttempts: 2}), rpc.WithRetryPolicy(retry)},
		{rpc.WithRetryPolicy(rpc.RetryPolicy{MaxAttempts: 2})},
	} {
		_, err := rpc.NewClient("localhost:1", append(opts, rpc.WithTransportCredentials(insecure.NewCredentials()))...)
		if !errors.Is(err, rpc.ErrServiceConfig) {
			t.Errorf("NewClient: %v", err)
		}
	}
	l := newHedgeLog(after(2*time.Second, codes.OK))
	opts := append(hedging(hedgeThree), rpc.WithDisableRetry())
	inBubble(t, l, opts, func(t *testing.T, c pb.TestServiceClient) {
		if err := sentCall(t.Context(), c, "unary"); err != nil || l.times() != "[0s]" {
			t.Errorf("with WithDisableRetry: attempts at %v, %v", l.times(), err)
		}
	})
}

// TestHedgedCallEndsOnce: the end of a hedged call is reported to default options and to the debug page once, and that of
// its attempts is not, also if no attempt had a connection.
func TestHedgedCallEndsOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		opts []rpc.DialOption
		code codes.Code
	}{
		{"answered", nil, codes.OK},
		{"without a connection", []rpc.DialOption{rpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			return nil, errors.New("no route")
		})}, codes.Unavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true))
				pb.RegisterTestServiceServer(s, newHedgeLog(never, after(time.Second, codes.OK)))
				var ends []error
				opts := append(hedging(`{"maxAttempts":3,"nonFatalStatusCodes":["UNAVAILABLE"]}`), rpc.WithObserveCalls(),
					rpc.WithDefaultCallOptions(grpc.OnFinish(func(err error) { ends = append(ends, err) })))
				cc := dialPiped(t, s, append(opts, c.opts...)...)
				wantCode(t, sentCall(t.Context(), pb.NewTestServiceClient(cc), "unary"), c.code)
				synctest.Wait()
				if len(ends) != 1 || status.Code(ends[0]) != c.code {
					t.Errorf("OnFinish was called with %v", ends)
				}
				if e := cc.Endpoint(); e.Calls != 1 || e.Active != 0 || e.Done != 1 {
					t.Errorf("of 1 call %d began, %d are active, %d have ended", e.Calls, e.Active, e.Done)
				}
			})
		})
	}
}

// TestSendMsgAfterTheEnd: SendMsg of a call that has ended leaves the error to RecvMsg, with hedging and without. It
// returns io.EOF, and nil in a call with one request, of which io.EOF would be the result that a generated stub returns.
func TestSendMsgAfterTheEnd(t *testing.T) {
	for name, opts := range map[string][]rpc.DialOption{"one attempt": nil, "hedged": hedging(hedgeThree)} {
		for _, many := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", many requests: ", many), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true))
					pb.RegisterTestServiceServer(s, newHedgeLog(after(time.Second, codes.NotFound)))
					cc := dialPiped(t, s, opts...)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					method, sent, status := pb.TestService_StreamingOutputCall_FullMethodName, error(nil), codes.Canceled
					if many {
						method, sent, status = pb.TestService_FullDuplexCall_FullMethodName, io.EOF, codes.NotFound
					}
					st, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: many}, method)
					if err != nil {
						t.Fatal(err)
					}
					if many {
						<-time.After(2 * time.Second) // the server has answered
					} else {
						cancel()
					}
					synctest.Wait()
					if err := st.SendMsg(&pb.StreamingOutputCallRequest{}); err != sent {
						t.Errorf("SendMsg: %v, want %v", err, sent)
					}
					wantCode(t, st.RecvMsg(new(pb.StreamingOutputCallResponse)), status)
				})
			})
		}
	}
}

// Attempts go through the balancer one by one, and each pick's Done and each attempt's statistics are
// reported once.
func TestHedgingReachesOthers(t *testing.T) {
	var hits [3]atomic.Int32
	var addrs []string
	for i := range hits {
		_, addr := startTarn(t, &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			if hits[i].Add(1); i < 2 {
				return nil, status.Error(codes.Unavailable, "not here")
			}
			return &pb.SimpleResponse{}, nil
		}})
		addrs = append(addrs, addr)
	}
	events := &attemptCount{}
	cc := dialAddrs(t, addrs, rpc.WithStatsHandler(events), rpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}],
		"methodConfig":[{"name":[{}],"hedgingPolicy":{"maxAttempts":3,"hedgingDelay":"60s","nonFatalStatusCodes":["UNAVAILABLE"]}}]}`))
	c := pb.NewTestServiceClient(cc)
	for ctx := ctxFor(t); hits[0].Load() == 0 || hits[1].Load() == 0 || hits[2].Load() == 0; {
		_, _ = c.UnaryCall(ctx, &pb.SimpleRequest{}, grpc.WaitForReady(true)) // fails until all are connected
		if ctx.Err() != nil {
			t.Fatal("not all servers get calls")
		}
	}
	answered := hits[2].Load()
	const calls = 30
	for range calls {
		if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}, grpc.WaitForReady(true)); err != nil {
			t.Fatal(err)
		}
	}
	if n := hits[2].Load() - answered; n != calls {
		t.Errorf("the server that answers got %d calls of %d", n, calls)
	}
	attempts := int(hits[0].Load() + hits[1].Load() + hits[2].Load())
	if b, e := events.begins.Load(), events.ends.Load(); int(b) != attempts || b != e {
		t.Errorf("%d attempts, %d Begin, %d End", attempts, b, e)
	}
}

// dropping is a balancer whose picker drops the attempts for which the func() bool under dropKey in their context returns true.
const dropping = "rpc_test_dropping"

type (
	dropKey      struct{}
	droppingPick struct{ sc balancer.SubConn }
)

func (p droppingPick) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	if drop, ok := info.Ctx.Value(dropKey{}).(func() bool); ok && drop() {
		return balancer.PickResult{}, status.Error(codes.Unavailable, "dropped")
	}
	return balancer.PickResult{SubConn: p.sc}, nil
}

var _ = func() bool {
	balancer.Register(base.NewBalancerBuilder(dropping, firstReady(func(sc balancer.SubConn) balancer.Picker { return droppingPick{sc} }), base.Config{}))
	return true
}()

// TestHedgingDropped: a call of which the balancer drops an attempt ends with the status of the drop, also while other attempts run and
// if that status is not fatal.
func TestHedgingDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true))
		l := newHedgeLog(never)
		pb.RegisterTestServiceServer(s, l)
		cc := dialPiped(t, s, rpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"`+dropping+`":{}}],"methodConfig":[{"name":[{}],
			"hedgingPolicy":`+hedgeThree+`}]}`))
		begun := time.Now()
		var picks atomic.Int32
		ctx := context.WithValue(ctxFor(t), dropKey{}, func() bool { return picks.Add(1) > 1 })
		_, err := pb.NewTestServiceClient(cc).UnaryCall(ctx, &pb.SimpleRequest{})
		if st := status.Convert(err); st.Code() != codes.Unavailable || st.Message() != "dropped" {
			t.Errorf("the call ended with %v", err)
		}
		if d := time.Since(begun); d != time.Second {
			t.Errorf("the call ended after %v, want at the drop of the second attempt", d)
		}
		synctest.Wait()
		if n := l.live.Load(); n != 0 {
			t.Errorf("%d attempts run on", n)
		}
	})
}

// TestDropsTakeNoTokens: a call that the balancer drops is not a failure that the throttle counts.
func TestDropsTakeNoTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true))
		var failing atomic.Int32
		pb.RegisterTestServiceServer(s, &testService{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			if failing.Add(1) == 1 {
				return nil, status.Error(codes.Unavailable, "once")
			}
			return &pb.SimpleResponse{}, nil
		}})
		cc := dialPiped(t, s, rpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"`+dropping+`":{}}],"retryThrottling":{"maxTokens":4,"tokenRatio":0.1},
			"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":2,"initialBackoff":"0.1s","maxBackoff":"0.1s","backoffMultiplier":1,"retryableStatusCodes":["UNAVAILABLE"]}}]}`))
		c := pb.NewTestServiceClient(cc)
		for range 4 {
			_, err := c.UnaryCall(context.WithValue(ctxFor(t), dropKey{}, func() bool { return true }), &pb.SimpleRequest{})
			wantCode(t, err, codes.Unavailable)
		}
		if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}); err != nil {
			t.Errorf("a call was not tried again after four that were dropped: %v", err)
		}
	})
}

// dialAddrs dials several addresses.
func dialAddrs(t testing.TB, addrs []string, opts ...rpc.DialOption) *rpc.ClientConn {
	r := manual.NewBuilderWithScheme("names")
	var s resolver.State
	for _, a := range addrs {
		s.Endpoints = append(s.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: a}}})
	}
	r.InitialState(s)
	return dialTarn(t, "names:///svc", append(opts, rpc.WithResolvers(r))...)
}

// TestHedgingOfLongRequests: a request longer than may be kept is sent once.
func TestHedgingOfLongRequests(t *testing.T) {
	l := newHedgeLog(after(5*time.Second, codes.OK))
	opts := append(hedging(hedgeThree), rpc.WithDefaultCallOptions(grpc.MaxRetryRPCBufferSize(2000)))
	inBubble(t, l, opts, func(t *testing.T, c pb.TestServiceClient) {
		if err := sentCall(t.Context(), c, "unary"); err != nil {
			t.Fatal(err)
		}
		if got := l.times(); got != "[0s]" {
			t.Errorf("attempts at %v", got)
		}
	})
}

// TestHedgedRequestNotEncoded: a message that cannot be encoded ends a hedged call before there is a connection.
func TestHedgedRequestNotEncoded(t *testing.T) {
	dial := func(context.Context, string) (net.Conn, error) { return nil, errors.New("no route") }
	synctest.Test(t, func(t *testing.T) {
		s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)))
		cc := dialPiped(t, s, append(hedging(hedgeThree), rpc.WithContextDialer(dial))...)
		err := cc.Invoke(t.Context(), pb.TestService_UnaryCall_FullMethodName, "not a message", new(pb.SimpleResponse), grpc.WaitForReady(true))
		wantCode(t, err, codes.Internal)
	})
}

// TestHedgedCallEnds: a hedged call ends with its context and with Close of the client, while its attempts run and while they wait for a
// connection.
func TestHedgedCallEnds(t *testing.T) {
	for name, end := range map[string]func(cancel context.CancelFunc, cc *rpc.ClientConn){
		"cancel": func(cancel context.CancelFunc, _ *rpc.ClientConn) { cancel() },
		"close":  func(_ context.CancelFunc, cc *rpc.ClientConn) { cc.Close() },
	} {
		for doing, opts := range map[string][]rpc.DialOption{
			"running": nil,
			"waiting": {rpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return nil, errors.New("no route") })},
		} {
			t.Run(name+"/"+doing, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true))
					l := newHedgeLog(never)
					pb.RegisterTestServiceServer(s, l)
					cc := dialPiped(t, s, append(hedging(`{"maxAttempts":3,"hedgingDelay":"1s"}`), opts...)...)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					got := make(chan error)
					go func() {
						_, err := pb.NewTestServiceClient(cc).UnaryCall(ctx, &pb.SimpleRequest{}, grpc.WaitForReady(true))
						got <- err
					}()
					<-time.After(3 * time.Second / 2) // the second attempt has begun
					synctest.Wait()
					end(cancel, cc)
					wantCode(t, <-got, codes.Canceled)
					synctest.Wait()
					if n := l.live.Load(); n != 0 {
						t.Errorf("%d attempts outlive their call", n)
					}
				})
			})
		}
	}
}

// TestHedgedCallPanics: a panic of the application's code that decodes the response reaches the caller when all attempts have ended.
func TestHedgedCallPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true))
		l := newHedgeLog(never, after(time.Second, codes.OK))
		pb.RegisterTestServiceServer(s, l)
		cc := dialPiped(t, s, append(hedging(`{"maxAttempts":3}`), rpc.WithObserveCalls())...)
		l.playPanic(t, cc)
	})
}

// TestStreamsAreNotHedged: a stream of a method with a hedging policy behaves as without one.
func TestStreamsAreNotHedged(t *testing.T) {
	for _, c := range []struct {
		script func(context.Context) error
		code   codes.Code
	}{{after(5*time.Second, codes.OK), codes.OK}, {after(time.Second, codes.Unavailable), codes.Unavailable}} {
		l := newHedgeLog(c.script)
		inBubble(t, l, hedging(hedgeThree), func(t *testing.T, cl pb.TestServiceClient) {
			wantCode(t, sentCall(t.Context(), cl, "stream"), c.code)
			if got := l.times(); got != "[0s]" {
				t.Errorf("attempts at %v", got)
			}
		})
	}
}
