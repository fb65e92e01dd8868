package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"
)

// sentCounts counts how often the function of SendInPlace was called for each message.
type sentCounts struct {
	mu sync.Mutex
	n  map[any]int
	ch chan any
}

func newSentCounts() *sentCounts { return &sentCounts{n: make(map[any]int), ch: make(chan any, 100)} }

func (s *sentCounts) done(m any) {
	s.mu.Lock()
	s.n[m]++
	s.mu.Unlock()
	s.ch <- m
}

// wait waits until the function was called for n messages, once for each.
func (s *sentCounts) wait(t *testing.T, n int) {
	t.Helper()
	within(t, "the calls of SendInPlace's function", func() {
		for range n {
			<-s.ch
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for m, k := range s.n {
		if k != 1 {
			t.Errorf("SendInPlace's function was called %d times for %T", k, m)
		}
	}
}

// sums answers with the first byte of the request, when all of it is the same.
func sums(_ context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	b := in.GetPayload().GetBody()
	if len(b) > 0 && !bytes.Equal(b, bytes.Repeat(b[:1], len(b))) {
		return nil, status.Error(codes.DataLoss, "bytes have changed")
	}
	return &pb.SimpleResponse{Payload: &pb.Payload{Body: b[:min(1, len(b))]}}, nil
}

// TestSendInPlace overwrites a request's memory whenever SendInPlace's function is called: the received bytes
// are those sent, at every size and over every kind of connection.
func TestSendInPlace(t *testing.T) {
	eachKind(t, func(t *testing.T, kind faultnet.Kind) {
		f := newFaulty(t, kind, &testService{unary: sums})
		c := pb.NewTestServiceClient(dialAgain(t, f))
		for _, n := range []int{0, 100, 64 << 10, 1 << 20} {
			s, req := newSentCounts(), &pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, n)}}
			for i := range 8 {
				for j := range req.Payload.Body {
					req.Payload.Body[j] = byte(i)
				}
				if _, err := c.UnaryCall(ctxFor(t), req, rpc.SendInPlace(s.done)); err != nil {
					t.Fatal(n, err)
				}
				s.wait(t, 1)
				s.n = make(map[any]int)
			}
		}
	})
}

// done is called once for each message, however its call ends, and not before the last reference to it is
// gone.
func TestSendInPlaceEnds(t *testing.T) {
	big := func() *pb.SimpleRequest { return &pb.SimpleRequest{Payload: payload(3 << 20)} }
	t.Run("retried", func(t *testing.T) {
		var calls atomic.Int32
		_, addr := startTarn(t, &testService{unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			if calls.Add(1) < 3 {
				return nil, status.Error(codes.Unavailable, "not yet")
			}
			return &pb.SimpleResponse{}, nil
		}})
		for name, policy := range map[string]string{
			"retry": `"retryPolicy":{"maxAttempts":4,"initialBackoff":"0.001s","maxBackoff":"0.001s","backoffMultiplier":1,"retryableStatusCodes":["UNAVAILABLE"]}`,
			"hedge": `"hedgingPolicy":{"maxAttempts":4,"hedgingDelay":"0.001s","nonFatalStatusCodes":["UNAVAILABLE"]}`,
		} {
			calls.Store(0)
			s := newSentCounts()
			cc := dialTarn(t, addr, rpc.WithDefaultServiceConfig(`{"methodConfig":[{"name":[{}],`+policy+`}]}`))
			if _, err := pb.NewTestServiceClient(cc).UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(100 << 10)}, rpc.SendInPlace(s.done)); err != nil {
				t.Fatal(name, err)
			}
			s.wait(t, 1)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		_, addr := startTarn(t, &testService{unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		cc, s := dialTarn(t, addr), newSentCounts()
		ctx, cancel := context.WithCancel(ctxFor(t))
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				_, err := pb.NewTestServiceClient(cc).UnaryCall(ctx, big(), rpc.SendInPlace(s.done))
				if status.Code(err) != codes.Canceled {
					t.Error(err)
				}
			})
		}
		cancel()
		wg.Wait()
		s.wait(t, 4)
	})
	t.Run("refused", func(t *testing.T) {
		_, addr := startTarn(t, &testService{})
		cc, s := dialTarn(t, addr), newSentCounts()
		gone, cancel := context.WithCancel(ctxFor(t))
		cancel()
		c := pb.NewTestServiceClient(cc)
		_, err := c.UnaryCall(gone, big(), rpc.SendInPlace(s.done))
		wantCode(t, err, codes.Canceled)
		s.wait(t, 1)
		cc.Close()
		_, err = c.UnaryCall(ctxFor(t), big(), rpc.SendInPlace(s.done))
		wantCode(t, err, codes.Canceled)
		s.wait(t, 1)
		web := dialTarn(t, addr, rpc.WithProtocol(rpc.Connect))
		_, err = pb.NewTestServiceClient(web).UnaryCall(ctxFor(t), big(), rpc.SendInPlace(s.done))
		wantCode(t, err, codes.Unimplemented)
		s.wait(t, 1)
	})
	t.Run("lost", func(t *testing.T) {
		f := newFaulty(t, faultnet.TCP, &testService{unary: sums})
		cc, s := dialAgain(t, f), newSentCounts()
		c := pb.NewTestServiceClient(cc)
		if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}); err != nil {
			t.Fatal(err)
		}
		f.each(func(l *faultnet.Link) { l.ToServer.Stall() })
		ctx, cancel := context.WithCancel(ctxFor(t))
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if _, err := c.UnaryCall(ctx, big(), rpc.SendInPlace(s.done)); err == nil {
					t.Error("answered by a server that was not reached")
				}
			})
		}
		cancel()
		wg.Wait()
		f.each(func(l *faultnet.Link) { l.Break(faultnet.RST) })
		s.wait(t, 4)
	})
	t.Run("streams", func(t *testing.T) {
		var replies sync.WaitGroup
		_, addr := startTarn(t, &testService{duplex: func(stream pb.TestService_FullDuplexCallServer) error {
			for {
				in, err := stream.Recv()
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err != nil {
					return err
				}
				replies.Add(1)
				if err := rpc.SendMsgInPlace(stream.Context(), &pb.StreamingOutputCallResponse{Payload: in.Payload}, replies.Done); err != nil {
					return err
				}
			}
		}})
		s := newSentCounts()
		stream, err := pb.NewTestServiceClient(dialTarn(t, addr)).FullDuplexCall(ctxFor(t), rpc.SendInPlace(s.done))
		if err != nil {
			t.Fatal(err)
		}
		for i, n := range []int{0, 100, 1 << 20, 2 << 20} {
			if err := stream.Send(&pb.StreamingOutputCallRequest{Payload: payload(n)}); err != nil {
				t.Fatal(err)
			}
			out, err := stream.Recv()
			if err != nil || !bytes.Equal(out.Payload.Body, body(n)) {
				t.Fatal(i, err)
			}
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != io.EOF {
			t.Fatal(err)
		}
		s.wait(t, 4)
		within(t, "the server's replies", replies.Wait)
		called := false
		err = rpc.SendMsgInPlace(ctxFor(t), &pb.Empty{}, func() { called = true })
		wantCode(t, err, codes.Internal)
		if !called {
			t.Error("SendInPlace's function was not called for a message that was not sent")
		}
	})
}

// TestSendMsgInPlaceRaw: the function is called for messages that no codec encodes, too.
func TestSendMsgInPlaceRaw(t *testing.T) {
	for _, p := range []rpc.Protocol{rpc.GRPC, rpc.Connect, rpc.GRPCWeb} {
		t.Run(p.String(), func(t *testing.T) {
			pool := tarntest.NewPool(t)
			var calls atomic.Int32
			svc := &testService{output: func(_ *pb.StreamingOutputCallRequest, s pb.TestService_StreamingOutputCallServer) error {
				chain, b := new(tarn.Chain), pool.Get(0)
				defer chain.Free() // what is not sent
				chain.Append(pool.Get(0))
				for _, m := range []any{nil, chain, &b} {
					if err := rpc.SendMsgInPlace(s.Context(), m, func() { calls.Add(1) }); err != nil {
						return err
					}
				}
				return nil
			}}
			_, addr := startTarn(t, svc)
			s, err := pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithProtocol(p))).StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{})
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if _, err := s.Recv(); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.Recv(); err != io.EOF {
				t.Fatal(err)
			}
			if n := calls.Load(); n != 3 {
				t.Errorf("the function was called for %d of 3 messages", n)
			}
		})
	}
}

// TestSendInPlaceBeforeInterceptors: done is called once for a call that fails because grpc-go makes no ClientConn for the interceptors. The default
// scheme of targets, which does that, is the process's.
func TestSendInPlaceBeforeInterceptors(t *testing.T) {
	const child = "TARN_NO_CONN"
	if os.Getenv(child) == "" {
		runChild(t, t.Name(), child+"=1")
		return
	}
	_, addr := startTarn(t, &testService{})
	for name, byDefault := range map[string]bool{"call": false, "default": true} {
		done, finished := 0, 0
		opts := []grpc.CallOption{rpc.SendInPlace(func(any) { done++ }), grpc.OnFinish(func(error) { finished++ })}
		dial := append(passing(), rpc.WithPool(tarntest.NewPool(t)), rpc.WithTransportCredentials(insecure.NewCredentials()))
		if byDefault {
			dial, opts = append(dial, rpc.WithDefaultCallOptions(opts...)), nil
		}
		cc, err := rpc.NewClient(addr, dial...)
		if err != nil {
			t.Fatal(err)
		}
		defer cc.Close()
		before := resolver.GetDefaultScheme()
		resolver.SetDefaultScheme("none-such")
		_, err = pb.NewTestServiceClient(cc).UnaryCall(ctxFor(t), &pb.SimpleRequest{}, opts...)
		resolver.SetDefaultScheme(before)
		wantCode(t, err, codes.Internal)
		if done != 1 || finished != 1 {
			t.Errorf("%s: done has run %d times, OnFinish %d times", name, done, finished)
		}
	}
}
