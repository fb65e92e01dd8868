package rpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// TestBreakWhileSending ends the connection under streams that send, some as fast as the server reads, some
// waiting for its window. No call has a deadline: every SendMsg and RecvMsg must return because the
// connection has ended, and so must every handler.
func TestBreakWhileSending(t *testing.T) {
	streams := 100
	if os.Getenv("TARN_LONG") != "" {
		streams = 1000
	}
	m := &pb.StreamingOutputCallRequest{Payload: payload(200_000)}
	eachKind(t, func(t *testing.T, kind faultnet.Kind) {
		for name, how := range endings {
			t.Run(name, func(t *testing.T) {
				var read, handlers atomic.Int64
				f := newFaulty(t, kind, &testService{duplex: func(stream pb.TestService_FullDuplexCallServer) error {
					handlers.Add(1)
					defer handlers.Add(-1)
					for read.Add(1)%10 != 0 {
						if _, err := stream.Recv(); err != nil {
							return err
						}
					}
					<-stream.Context().Done()
					return nil
				}})
				var started, ended sync.WaitGroup
				for range streams {
					st, err := f.calls.FullDuplexCall(context.Background())
					if err != nil {
						t.Fatal(err)
					}
					started.Add(1)
					ended.Add(2)
					go func() {
						defer ended.Done()
						err := st.Send(m)
						started.Done()
						for err == nil {
							err = st.Send(m)
						}
						if err != io.EOF {
							t.Errorf("Send: %v", err)
						}
					}()
					go func() {
						defer ended.Done()
						_, err := st.Recv()
						if status.Code(err) != codes.Unavailable {
							t.Errorf("Recv: %v", err)
						}
					}()
				}
				if kind != faultnet.Pipe { // one at a time: that would take long
					within(t, "first messages", started.Wait)
				}
				f.each(func(l *faultnet.Link) { l.Break(how) })
				within(t, "the end of all streams", ended.Wait)
				within(t, "Stop", f.server.Stop)
				if n := handlers.Load(); n != 0 {
					t.Errorf("%d handlers are left", n)
				}
			})
		}
	})
}

// wideWindows lets a client send far more than sockets hold.
var wideWindows = []rpc.ServerOption{rpc.InitialWindowSize(64 << 20), rpc.InitialConnWindowSize(256 << 20), rpc.MaxRecvMsgSize(64 << 20)}

// TestEndUnderAFullSocket stalls the connection, so that sockets and queues fill. Calls nevertheless end at
// their deadline or when they are cancelled, while the stall lasts; and then Close returns.
func TestEndUnderAFullSocket(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, kind faultnet.Kind) {
		f := newFaulty(t, kind, &testService{}, wideWindows...)
		if _, err := f.calls.EmptyCall(ctxFor(t), &pb.Empty{}); err != nil {
			t.Fatal(err)
		}
		f.each(func(l *faultnet.Link) { l.ToServer.Stall() })
		for _, want := range []codes.Code{codes.DeadlineExceeded, codes.Canceled} {
			var wg sync.WaitGroup
			for range 10 {
				ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
				if want == codes.Canceled {
					ctx, cancel = context.WithCancel(context.Background())
					time.AfterFunc(100*time.Millisecond, cancel)
				}
				defer cancel()
				wg.Add(3)
				go func() {
					defer wg.Done()
					_, err := f.calls.UnaryCall(ctx, &pb.SimpleRequest{Payload: payload(1 << 20)})
					if status.Code(err) != want {
						t.Errorf("a unary call: %v, want %v", err, want)
					}
				}()
				go func() {
					defer wg.Done()
					_, err := f.calls.EmptyCall(ctx, &pb.Empty{})
					if status.Code(err) != want {
						t.Errorf("a small unary call: %v, want %v", err, want)
					}
				}()
				go func() {
					defer wg.Done()
					s, err := f.calls.FullDuplexCall(ctx)
					for err == nil {
						err = s.Send(&pb.StreamingOutputCallRequest{Payload: payload(1 << 20)})
					}
					if err == io.EOF {
						_, err = s.Recv()
					}
					if status.Code(err) != want {
						t.Errorf("a stream: %v, want %v", err, want)
					}
				}()
			}
			within(t, want.String(), wg.Wait)
		}
		within(t, "Close", func() { f.client.Close() })
	})
}

// On the server's side, a handler returns from Send at its call's deadline, or when the client cancels, while
// no data drains.
func TestHandlerEndsUnderAFullSocket(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, kind faultnet.Kind) {
		for _, want := range []codes.Code{codes.DeadlineExceeded, codes.Canceled} {
			t.Run(want.String(), func(t *testing.T) {
				const handlers = 5
				began, left := make(chan struct{}, 1000), make(chan error, 1000)
				f := newFaulty(t, kind, &testService{duplex: func(s pb.TestService_FullDuplexCallServer) error {
					began <- struct{}{}
					for {
						if err := s.Send(&pb.StreamingOutputCallResponse{Payload: payload(1 << 20)}); err != nil {
							left <- err
							return err
						}
					}
				}})
				f.client = dialAgain(t, f, rpc.WithInitialWindowSize(64<<20), rpc.WithInitialConnWindowSize(256<<20), rpc.WithMaxHeaderListSize(1<<20))
				c := pb.NewTestServiceClient(f.client)
				if _, err := c.EmptyCall(ctxFor(t), &pb.Empty{}); err != nil {
					t.Fatal(err)
				}
				f.each(func(l *faultnet.Link) { l.ToClient.Stall() })
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				timeout := time.Minute
				if want == codes.DeadlineExceeded {
					timeout = 100 * time.Millisecond
				}
				for n := 0; n < handlers; {
					ctx, cancel := context.WithTimeout(ctx, timeout)
					defer cancel()
					if s, err := c.FullDuplexCall(ctx); err == nil {
						go s.Recv()
					} else if want == codes.Canceled {
						t.Fatal(err)
					}
					select {
					case <-began:
						n++
					case <-ctx.Done():
						timeout *= 2 // the handler could not begin before the deadline
					}
				}
				if want == codes.Canceled {
					time.AfterFunc(100*time.Millisecond, cancel)
				}
				within(t, "the handlers", func() {
					for range handlers {
						if err := <-left; status.Code(err) != want && status.Code(err) != codes.Canceled {
							t.Errorf("Send: %v", err)
						}
					}
				})
			})
		}
	})
}

// dialAgain replaces f's client by one with other options.
func dialAgain(t testing.TB, f *faulty, opts ...rpc.DialOption) *rpc.ClientConn {
	t.Helper()
	f.client.Close()
	return dialTarn(t, "passthrough:///x", append(opts, rpc.WithContextDialer(f.dial(t)), fastBackoff())...)
}

// Header and RecvMsg wait at the same time, on a server that sends nothing: the deadline ends both; and on
// one that answers.
func TestHeaderBesideRecv(t *testing.T) {
	answer := make(chan bool)
	svc := &testService{duplex: func(stream pb.TestService_FullDuplexCallServer) error {
		if <-answer {
			return stream.Send(&pb.StreamingOutputCallResponse{})
		}
		<-stream.Context().Done()
		return nil
	}}
	eachKind(t, func(t *testing.T, kind faultnet.Kind) {
		c := newFaulty(t, kind, svc).calls
		for i := range 40 {
			ctx := &impatient{Context: context.Background(), done: make(chan struct{})}
			if i%2 == 1 {
				ctx.at = time.Now().Add(time.Minute)
			}
			st, err := c.FullDuplexCall(ctx)
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for range 3 {
				wg.Add(1)
				go func() {
					defer wg.Done()
					if _, err := st.Header(); err != nil {
						t.Errorf("Header: %v", err)
					}
				}()
			}
			wg.Add(1)
			go func() {
				defer wg.Done()
				_, err := st.Recv()
				if i%2 == 0 && err != nil {
					t.Errorf("Recv of an answer: %v", err)
				}
				if i%2 == 1 && status.Code(err) != codes.DeadlineExceeded {
					t.Errorf("Recv past the deadline: %v", err)
				}
			}()
			answer <- i%2 == 0
			if i%2 == 1 {
				ctx.end() // not before the handler, which would never have received answer
			}
			within(t, "Header and Recv", wg.Wait)
			ctx.end()
		}
	})
}

// SendMsg after CloseSend is an incorrect use: it ends the call, as in grpc-go.
func TestSendAfterCloseSend(t *testing.T) {
	eachPairing(t, &testService{duplex: func(stream pb.TestService_FullDuplexCallServer) error {
		<-stream.Context().Done()
		return nil
	}}, func(t *testing.T, c pb.TestServiceClient) {
		st, err := c.FullDuplexCall(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if err := st.CloseSend(); err != nil {
			t.Fatal(err)
		}
		wantCode(t, st.Send(&pb.StreamingOutputCallRequest{}), codes.Internal)
		within(t, "Recv", func() {
			_, err := st.Recv()
			wantCode(t, err, codes.Internal)
		})
	})
}

// TestWaitsEndWithTheConnection breaks a connection while Header and RecvMsg of its streams wait at the same time, on
// the client, and RecvMsg on the server, without deadlines: all return. SendMsg of a handler fails afterwards.
func TestWaitsEndWithTheConnection(t *testing.T) {
	const streams = 10
	eachKind(t, func(t *testing.T, kind faultnet.Kind) {
		for name, how := range endings {
			t.Run(name, func(t *testing.T) {
				var begun, handlers, waits sync.WaitGroup
				begun.Add(streams)
				handlers.Add(2 * streams)
				f := newFaulty(t, kind, &testService{duplex: func(stream pb.TestService_FullDuplexCallServer) error {
					begun.Done()
					go func() {
						defer handlers.Done()
						if _, err := stream.Recv(); status.Code(err) != codes.Canceled {
							t.Errorf("a handler's Recv: %v", err)
						}
					}()
					defer handlers.Done()
					<-stream.Context().Done()
					if err := stream.Send(&pb.StreamingOutputCallResponse{}); err == nil {
						t.Error("a handler's Send has succeeded")
					}
					return nil
				}})
				for range streams {
					st, err := f.calls.FullDuplexCall(context.Background())
					if err != nil {
						t.Fatal(err)
					}
					waits.Add(2)
					go func() {
						defer waits.Done()
						st.Header() // its error is not specified
					}()
					go func() {
						defer waits.Done()
						if _, err := st.Recv(); status.Code(err) != codes.Unavailable {
							t.Errorf("Recv: %v", err)
						}
					}()
				}
				within(t, "the handlers' start", begun.Wait)
				f.each(func(l *faultnet.Link) { l.Break(how) })
				within(t, "Header and Recv", waits.Wait)
				within(t, "the handlers", handlers.Wait)
			})
		}
	})
}

// SendMsg after CloseSend ends the call also while nothing drains.
func TestSendAfterCloseSendUnderAFullSocket(t *testing.T) {
	eachKind(t, func(t *testing.T, kind faultnet.Kind) {
		f := newFaulty(t, kind, &testService{}, wideWindows...)
		if _, err := f.calls.EmptyCall(ctxFor(t), &pb.Empty{}); err != nil {
			t.Fatal(err)
		}
		f.each(func(l *faultnet.Link) { l.ToServer.Stall() })
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var filling sync.WaitGroup
		defer filling.Wait()
		st, err := f.calls.FullDuplexCall(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		fill := func(ctx context.Context) {
			filler, err := f.calls.FullDuplexCall(ctx)
			for err == nil {
				err = filler.Send(&pb.StreamingOutputCallRequest{Payload: payload(1 << 20)})
			}
		}
		short, end := context.WithTimeout(ctx, 50*time.Millisecond)
		defer end()
		fill(short) // until it has waited: the socket is full
		filling.Go(func() { fill(ctx) })
		within(t, "the call", func() {
			st.CloseSend()
			if err := st.Send(&pb.StreamingOutputCallRequest{}); status.Code(err) != codes.Internal {
				t.Errorf("Send: %v", err)
			}
			if _, err := st.Recv(); status.Code(err) != codes.Internal {
				t.Errorf("Recv: %v", err)
			}
		})
		cancel()
	})
}

// A server ends a call without reading its request and without a reset: SendMsg must not wait for a window
// that will never open.
func TestEndWhileSending(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		addr := rawServer(t, func(p *rawPeer, id uint32) {
			p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndHeaders: true, EndStream: true,
				BlockFragment: p.block(":status", "200", "content-type", "application/grpc", "grpc-status", "9")})
		})
		c := pb.NewTestServiceClient(dialTarn(t, addr))
		t.Run("stream", func(t faultnet.OnKind) {
			st, err := c.FullDuplexCall(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			within(t, "Send", func() {
				for err == nil {
					err = st.Send(&pb.StreamingOutputCallRequest{Payload: payload(200_000)})
				}
			})
			if err != io.EOF {
				t.Fatal(err)
			}
			_, err = st.Recv()
			wantCode(t, err, codes.FailedPrecondition)
		})
		t.Run("unary", func(t faultnet.OnKind) {
			within(t, "UnaryCall", func() {
				_, err := c.UnaryCall(context.Background(), &pb.SimpleRequest{Payload: payload(200_000)})
				wantCode(t, err, codes.FailedPrecondition)
			})
		})
	})
}

// TestServerEnforcesTheDeadlineFirst resets a request that is only partly sent, after its deadline:
// DEADLINE_EXCEEDED, as for a complete one.
func TestServerEnforcesTheDeadlineFirst(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		var writing sync.Mutex // both requests may come on one connection
		addr := rawServer(t, func(p *rawPeer, id uint32) {
			go func() {
				<-time.After(30 * time.Millisecond)
				writing.Lock()
				defer writing.Unlock()
				p.fr.WriteRSTStream(id, http2.ErrCodeCancel)
			}()
		})
		c := pb.NewTestServiceClient(dialTarn(t, addr))
		for _, size := range []int{100, 200_000} {
			// The context's timer is late on purpose: the server comes first.
			ctx := lateContext{Context: context.Background(), at: time.Now().Add(20 * time.Millisecond)}
			_, err := c.UnaryCall(ctx, &pb.SimpleRequest{Payload: payload(size)})
			wantCode(t, err, codes.DeadlineExceeded)
		}
	})
}

// lateContext has a deadline at which it does not end.
type lateContext struct {
	context.Context
	at time.Time
}

func (c lateContext) Deadline() (time.Time, bool) { return c.at, true }

// The connection ends after part of a large request: without a retry policy the call is not made again.
func TestNoTransparentRetryOfSentBytes(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		for _, goAway := range []http2.ErrCode{http2.ErrCodeNo, http2.ErrCodeEnhanceYourCalm} {
			t.Run(goAway.String(), func(t faultnet.OnKind) {
				var requests atomic.Int32
				addr := rawServer(t, func(p *rawPeer, id uint32) {
					requests.Add(1)
					for got := 0; got < 60_000; {
						fr, err := p.fr.ReadFrame()
						if err != nil {
							return
						}
						if d, ok := fr.(*http2.DataFrame); ok {
							got += len(d.Data())
						}
					}
					if goAway != http2.ErrCodeNo {
						p.fr.WriteGoAway(id, goAway, []byte("enough"))
					}
					p.nc.Close()
				})
				c := pb.NewTestServiceClient(dialTarn(t, addr, fastBackoff()))
				for range 20 {
					_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(200_000)})
					wantCode(t, err, codes.Unavailable)
				}
				if n := requests.Load(); n > 20 {
					t.Fatalf("20 calls made %d requests", n)
				}
			})
		}
	})
}

// TestCutAtEachByte ends the connection of a call after each thirteenth byte of either direction, with TARN_LONG=1 after each (but over TLS), by FIN
// and by RST. The call has no deadline: it ends with UNAVAILABLE or, when its answer has come, with OK, and every buffer is freed.
func TestCutAtEachByte(t *testing.T) {
	t.Parallel()
	eachKind(t, cutAtEachByte)
}

func cutAtEachByte(t *testing.T, kind faultnet.Kind) {
	step := int64(13)
	if os.Getenv("TARN_LONG") != "" && kind != faultnet.TLS {
		step = 1
	}
	pool := tarntest.NewPool(t)
	f := newFaultyNet(kind)
	server := rpc.NewServer(rpc.Pool(pool), rpc.WaitForHandlers(true))
	pb.RegisterTestServiceServer(server, &testService{})
	go server.Serve(f)
	t.Cleanup(func() { within(t, "Stop", server.Stop) })
	errDialled := errors.New("the only connection has been made")
	request := &pb.SimpleRequest{Payload: payload(100), ResponseSize: 100}
	call := func(t *testing.T, cut func(l *faultnet.Link)) (*faultnet.Link, error) {
		l := faultnet.New(t, kind)
		cut(l)
		var dialled atomic.Bool
		cc, err := rpc.NewClient("passthrough:///x", rpc.WithTransportCredentials(insecure.NewCredentials()), rpc.WithPool(pool),
			rpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
				if dialled.Swap(true) {
					return nil, errDialled
				}
				f.conns <- l.Server
				return l.Client, nil
			}))
		if err != nil {
			t.Fatal(err)
		}
		within(t, "the call", func() { _, err = pb.NewTestServiceClient(cc).UnaryCall(context.Background(), request) })
		cc.Close()
		return l, err
	}
	whole, err := call(t, func(*faultnet.Link) {})
	if err != nil {
		t.Fatal(err)
	}
	for name, how := range endings {
		for direction, flow := range map[string]func(*faultnet.Link) *faultnet.Flow{
			"to the server": func(l *faultnet.Link) *faultnet.Flow { return l.ToServer },
			"to the client": func(l *faultnet.Link) *faultnet.Flow { return l.ToClient },
		} {
			t.Run(name+" "+direction, func(t *testing.T) {
				ended := map[codes.Code]int{}
				for at := int64(0); at <= flow(whole).Passed(); at += step {
					_, err := call(t, func(l *faultnet.Link) { flow(l).CutAfter(at, how) })
					ended[status.Code(err)]++
					if c := status.Code(err); c != codes.OK && c != codes.Unavailable {
						t.Errorf("after %d bytes: %v", at, err)
					}
				}
				if ended[codes.Unavailable] == 0 {
					t.Errorf("calls ended %v", ended)
				}
				t.Logf("calls ended %v", ended)
			})
		}
	}
}
