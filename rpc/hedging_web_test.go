package rpc_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// eachPipedWeb runs f with a client of each protocol of the web, over HTTP/1.1 and HTTP/2, in a bubble of synctest. svc is called for each.
func eachPipedWeb(t *testing.T, svc func() pb.TestServiceServer, opts []rpc.DialOption, f func(t *testing.T, cc *rpc.ClientConn)) {
	for _, p := range []rpc.Protocol{rpc.GRPCWeb, rpc.Connect} {
		for version, dial := range map[string]func(t *testing.T, s *rpc.Server, opts ...rpc.DialOption) *rpc.ClientConn{
			"HTTP/1.1": dialPiped, "HTTP/2": dialPipedHTTP2} {
			t.Run(p.String()+" "+version, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true))
					pb.RegisterTestServiceServer(s, svc())
					f(t, dial(t, s, append([]rpc.DialOption{rpc.WithProtocol(p)}, opts...)...))
				})
			})
		}
	}
}

// dialPipedHTTP2 is dialPiped for a client of the web whose requests are sent over HTTP/2.
func dialPipedHTTP2(t *testing.T, s *rpc.Server, opts ...rpc.DialOption) *rpc.ClientConn {
	t.Helper()
	rt := &h2http.Transport{Config: h2http.Config{Pool: tarntest.NewPool(t)}, DisableCompression: true, DialContext: servePiped(t, s).dialNetwork}
	t.Cleanup(rt.CloseIdleConnections)
	cc, err := rpc.NewClient("http://svc", append([]rpc.DialOption{rpc.WithPool(tarntest.NewPool(t)), rpc.WithRoundTripper(rt)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return cc
}

// TestHedgingOverTheWeb: TestHedging over Connect and gRPC-Web. A call commits to the first message there.
func TestHedgingOverTheWeb(t *testing.T) {
	t.Parallel()
	for _, c := range hedgingScenes {
		t.Run(c.name, func(t *testing.T) {
			want := c.hedgingResult
			if c.web != nil {
				want = *c.web
			}
			var l *hedgeLog
			count := &attemptCount{}
			eachPipedWeb(t, func() pb.TestServiceServer {
				l = newHedgeLog(c.script...)
				return l
			}, append(hedging(c.policy), rpc.WithStatsHandler(count)), func(t *testing.T, cc *rpc.ClientConn) {
				count.begins.Store(0)
				count.ends.Store(0)
				c.play(t, l, count, pb.NewTestServiceClient(cc), want)
			})
		})
	}
}

// TestHedgedCallEndsOverTheWeb: a hedged call over Connect and gRPC-Web ends with its context and with Close of the client, and its attempts
// with it.
func TestHedgedCallEndsOverTheWeb(t *testing.T) {
	for name, end := range map[string]func(cancel context.CancelFunc, cc *rpc.ClientConn){
		"cancel": func(cancel context.CancelFunc, _ *rpc.ClientConn) { cancel() },
		"close":  func(_ context.CancelFunc, cc *rpc.ClientConn) { cc.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			var l *hedgeLog
			count := &attemptCount{}
			eachPipedWeb(t, func() pb.TestServiceServer {
				l = newHedgeLog(never)
				return l
			}, append(hedging(hedgeThree), rpc.WithStatsHandler(count), rpc.WithObserveCalls()), func(t *testing.T, cc *rpc.ClientConn) {
				count.begins.Store(0)
				count.ends.Store(0)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				got := make(chan error)
				finished := 0
				go func() {
					_, err := pb.NewTestServiceClient(cc).UnaryCall(ctx, &pb.SimpleRequest{}, grpc.OnFinish(func(error) { finished++ }))
					got <- err
				}()
				<-time.After(3 * time.Second / 2) // the second attempt has begun
				synctest.Wait()
				end(cancel, cc)
				wantCode(t, <-got, codes.Canceled)
				if b, e := count.begins.Load(), count.ends.Load(); b != 2 || e != 2 || finished != 1 {
					t.Errorf("%d attempts have begun and %d ended, OnFinish ran %d times", b, e, finished)
				}
				if e := cc.Endpoint(); e.Active != 0 {
					t.Errorf("%d calls are active", e.Active)
				}
				synctest.Wait()
				if n := l.live.Load(); n != 0 {
					t.Errorf("%d attempts outlive their call", n)
				}
			})
		})
	}
}

// TestHedgedCallPanicsOverTheWeb: a panic of the application's code that decodes the response reaches the caller when all attempts have ended.
func TestHedgedCallPanicsOverTheWeb(t *testing.T) {
	var l *hedgeLog
	eachPipedWeb(t, func() pb.TestServiceServer {
		l = newHedgeLog(never, after(time.Second, codes.OK))
		return l
	}, append(hedging(`{"maxAttempts":3}`), rpc.WithObserveCalls()), func(t *testing.T, cc *rpc.ClientConn) {
		l.playPanic(t, cc)
	})
}

// TestHedgingLendsOverTheWeb: the response of a hedged call over Connect and gRPC-Web may be lent, and is intact until release.
func TestHedgingLendsOverTheWeb(t *testing.T) {
	var l *hedgeLog
	eachPipedWeb(t, func() pb.TestServiceServer {
		l = newHedgeLog(never, after(time.Second, codes.OK))
		return l
	}, hedging(hedgeThree), func(t *testing.T, cc *rpc.ClientConn) {
		var release func()
		out, err := pb.NewTestServiceClient(cc).UnaryCall(t.Context(), &pb.SimpleRequest{Payload: payload(100000)}, rpc.LendResponse(&release))
		if err != nil || string(out.Payload.Body) != string(body(100000)) {
			t.Fatal(err)
		}
		release()
	})
}
