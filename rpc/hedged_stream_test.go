package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// A call that has sent more than may be kept continues with one attempt.
func TestHedgingCommitsWhenFull(t *testing.T) {
	for _, kind := range []string{"unary", "stream"} {
		t.Run(kind, func(t *testing.T) {
			l := newHedgeLog(after(5*time.Second, codes.OK))
			opts := append(hedging(hedgeThree), rpc.WithDefaultCallOptions(grpc.MaxRetryRPCBufferSize(2000)))
			inBubble(t, l, opts, func(t *testing.T, c pb.TestServiceClient) {
				if err := hedgedCall(t.Context(), c, kind); err != nil {
					t.Fatal(err)
				}
				if got := l.times(); got != "[0s]" {
					t.Errorf("attempts at %v", got)
				}
			})
		})
	}
}

// Messages are sent while attempts are running, and after the call has committed.
func TestHedgedStream(t *testing.T) {
	faultnet.NeedsTCP(t, "the relay has addresses of its own")
	var heads [3]chan struct{} // closed when an attempt is to send its header
	for i := range heads {
		heads[i] = make(chan struct{})
	}
	var n atomic.Int32
	svc := &testService{duplex: func(s pb.TestService_FullDuplexCallServer) error {
		i := n.Add(1) - 1
		select {
		case <-heads[i]:
		case <-s.Context().Done():
			return s.Context().Err()
		}
		if err := s.SendHeader(metadata.Pairs("attempt", fmt.Sprint(i))); err != nil {
			return err
		}
		s.SetTrailer(metadata.Pairs("end", fmt.Sprint(i)))
		return echoStream(s)
	}}
	_, addr := startTarn(t, svc)
	var finished []error
	var p peer.Peer
	var trailer metadata.MD
	cc := dialTarn(t, addr, rpc.WithHedgingPolicy(rpc.HedgingPolicy{MaxAttempts: 3}))
	s, err := pb.NewTestServiceClient(cc).FullDuplexCall(ctxFor(t), grpc.Peer(&p), grpc.Trailer(&trailer),
		grpc.OnFinish(func(err error) { finished = append(finished, err) }))
	if err != nil {
		t.Fatal(err)
	}
	send := func(size int) {
		t.Helper()
		if err := s.Send(&pb.StreamingOutputCallRequest{Payload: payload(size)}); err != nil {
			t.Fatal(err)
		}
	}
	recv := func(size int) {
		t.Helper()
		out, err := s.Recv()
		if err != nil || string(out.Payload.Body) != string(body(size)) {
			t.Fatalf("%d bytes, %v", len(out.GetPayload().GetBody()), err)
		}
	}
	for i := range 20 {
		send(1000 + i)
	}
	for n.Load() < 3 { // the deadline of the call bounds this
		if s.Context().Err() != nil {
			t.Fatal("not all attempts have come")
		}
	}
	close(heads[1])
	md, err := s.Header()
	if err != nil || md.Get("attempt")[0] != "1" {
		t.Fatal(md, err)
	}
	for i := range 20 {
		recv(1000 + i)
	}
	for _, size := range []int{0, 1 << 20, 5} {
		send(size)
		recv(size)
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); err != io.EOF {
		t.Fatal(err)
	}
	if _, err := s.Recv(); err != io.EOF {
		t.Fatal(err)
	}
	if err := s.Send(&pb.StreamingOutputCallRequest{}); err == nil {
		t.Error("a message went to a call that has ended")
	}
	if len(finished) != 1 || finished[0] != nil || p.Addr == nil || p.Addr.String() != addr {
		t.Errorf("OnFinish %v, peer %v", finished, p)
	}
	if got := s.Trailer().Get("end"); fmt.Sprint(got) != "[1]" || fmt.Sprint(trailer.Get("end")) != "[1]" {
		t.Errorf("trailers %v and %v", got, trailer)
	}
}

// A hedged call ends with its context and with Close of the client, whatever it is doing.
func TestHedgedStreamEnds(t *testing.T) {
	for name, end := range map[string]func(cancel context.CancelFunc, cc *rpc.ClientConn){
		"cancel": func(cancel context.CancelFunc, _ *rpc.ClientConn) { cancel() },
		"close":  func(_ context.CancelFunc, cc *rpc.ClientConn) { cc.Close() },
	} {
		for _, doing := range []string{"nothing", "receiving", "sending much", "server streaming"} {
			t.Run(name+"/"+doing, func(t *testing.T) {
				began := make(chan struct{}, 10)
				svc := &testService{
					duplex: func(s pb.TestService_FullDuplexCallServer) error {
						began <- struct{}{}
						<-s.Context().Done()
						return s.Context().Err()
					},
					output: func(_ *pb.StreamingOutputCallRequest, s pb.TestService_StreamingOutputCallServer) error {
						began <- struct{}{}
						<-s.Context().Done()
						return s.Context().Err()
					},
				}
				_, addr := startTarn(t, svc)
				cc := dialTarn(t, addr, rpc.WithHedgingPolicy(rpc.HedgingPolicy{MaxAttempts: 2}))
				c := pb.NewTestServiceClient(cc)
				ctx, cancel := context.WithCancel(ctxFor(t))
				defer cancel()
				var recv func() error
				if doing == "server streaming" {
					s, err := c.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
					if err != nil {
						t.Fatal(err)
					}
					recv = func() error { _, err := s.Recv(); return err }
				} else {
					s, err := c.FullDuplexCall(ctx)
					if err != nil {
						t.Fatal(err)
					}
					recv = func() error { _, err := s.Recv(); return err }
					if doing == "sending much" {
						go func() {
							for s.Send(&pb.StreamingOutputCallRequest{Payload: payload(100000)}) == nil {
							}
						}()
					}
				}
				<-began
				if doing != "sending much" { // may have committed to the first attempt
					<-began
				}
				if doing == "nothing" {
					end(cancel, cc)
					wantCode(t, recv(), codes.Canceled)
					return
				}
				got := make(chan error, 1)
				go func() { got <- recv() }()
				end(cancel, cc)
				wantCode(t, <-got, codes.Canceled)
			})
		}
	}
}

// A caller that has sent more than may be kept, and then receives before the attempt has begun, gets the
// answer to the attempt that its messages went to.
func TestHedgedStreamReceivesAtOnce(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // the attempt's goroutine runs after the caller's
	var handlers atomic.Int32
	svc := &testService{duplex: func(s pb.TestService_FullDuplexCallServer) error {
		handlers.Add(1)
		return echoStream(s)
	}}
	_, addr := startTarn(t, svc)
	c := pb.NewTestServiceClient(dialTarn(t, addr,
		rpc.WithHedgingPolicy(rpc.HedgingPolicy{MaxAttempts: 2, HedgingDelay: time.Hour}),
		rpc.WithDefaultCallOptions(grpc.MaxRetryRPCBufferSize(1))))
	const calls = 100
	for range calls {
		s, err := c.FullDuplexCall(ctxFor(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(&pb.StreamingOutputCallRequest{Payload: payload(100)}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
		s.CloseSend()
		if _, err := s.Recv(); err != io.EOF {
			t.Fatal(err)
		}
	}
	if n := handlers.Load(); n != calls {
		t.Errorf("%d handlers for %d calls", n, calls)
	}
}

// A call that has sent more than may be kept continues with the attempt that has sent the most, wherever it
// stands in their order: of two servers that get the attempts in turns, one does not read on.
func TestHedgingCommitsToTheFurthest(t *testing.T) {
	const attempts, long, messages, calls = 3, 100_000, 10, 6 // a window of 65,535 bytes takes less than one message
	var got [calls]atomic.Int32                               // messages of each call
	reached := make(chan string, 100)                         // the server of each attempt
	_, addr := startTarn(t, &testService{duplex: func(s pb.TestService_FullDuplexCallServer) error {
		reached <- "reads"
		for {
			in, err := s.Recv()
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
			if n := len(in.Payload.Body); n >= long {
				got[n-long].Add(1)
			} else if n > 0 {
				if err := s.Send(&pb.StreamingOutputCallResponse{Payload: in.Payload}); err != nil {
					return err
				}
			}
		}
	}})
	slow := rawServer(t, func(*rawPeer, uint32) { reached <- "does not" })
	cc := dialAddrs(t, []string{slow, addr}, rpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}],
		"methodConfig":[{"name":[{}],"hedgingPolicy":{"maxAttempts":3}}]}`), rpc.WithDefaultCallOptions(grpc.MaxRetryRPCBufferSize(messages*long+1000)))
	c := pb.NewTestServiceClient(cc)
	send := func(s pb.TestService_FullDuplexCallClient, n int) {
		t.Helper()
		if err := s.Send(&pb.StreamingOutputCallRequest{Payload: payload(n)}); err != nil {
			t.Fatal(err)
		}
	}
	for call := 0; call < calls; {
		ctx, cancel := context.WithCancel(ctxFor(t))
		s, err := c.FullDuplexCall(ctx)
		if err != nil {
			t.Fatal(err)
		}
		send(s, 0)
		servers := map[string]int{}
		for range attempts {
			servers[<-reached]++
		}
		if len(servers) < 2 { // one of them is not connected yet
			cancel()
			continue
		}
		for range messages {
			send(s, long+call)
		}
		for got[call].Load() < messages { // the deadline of the call bounds this
			if ctx.Err() != nil {
				t.Fatal("no attempt sends on")
			}
			runtime.Gosched()
		}
		send(s, long+call) // more than may be kept
		send(s, 1)
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != io.EOF {
			t.Fatal(err)
		}
		cancel()
		call++
	}
}

// TestHedgedStreamEndsWithoutAConnection: a message that cannot be encoded ends a hedged call also while its attempt waits for a
// connection.
func TestHedgedStreamEndsWithoutAConnection(t *testing.T) {
	dial := func(context.Context, string) (net.Conn, error) { return nil, errors.New("no route") }
	inBubble(t, &testService{}, append(hedging(hedgeThree), rpc.WithContextDialer(dial)), func(t *testing.T, c pb.TestServiceClient) {
		s, err := c.FullDuplexCall(t.Context(), grpc.WaitForReady(true))
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			wantCode(t, s.SendMsg("not a message"), codes.Internal)
			ended <- s.RecvMsg(new(pb.StreamingOutputCallResponse))
		}()
		select {
		case err := <-ended:
			wantCode(t, err, codes.Internal)
		case <-time.After(time.Hour):
			t.Fatal("the call waits for a connection")
		}
	})
}
