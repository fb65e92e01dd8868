package rpc_test

import (
	"context"
	"io"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// inProducer runs f in a bubble of synctest with what a producer makes its calls on.
func inProducer(t *testing.T, svc pb.TestServiceServer, f func(t *testing.T, cc *rpc.ClientConn, on grpc.ClientConnInterface)) {
	synctest.Test(t, func(t *testing.T) {
		s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true))
		pb.RegisterTestServiceServer(s, svc)
		cc := dialPiped(t, s, rpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"`+producing+`":{}}]}`))
		b := &connOfProducer{}
		if _, err := pb.NewTestServiceClient(cc).EmptyCall(context.WithValue(t.Context(), builderKey{}, b), &pb.Empty{}); err != nil {
			t.Fatal(err)
		}
		f(t, cc, b.cc)
	})
}

// TestProducersCalls: a producer may make calls of every kind, with call options, header and trailer, as on a client.
func TestProducersCalls(t *testing.T) {
	said := func(ctx context.Context) {
		_ = grpc.SetHeader(ctx, metadata.Pairs("head", "1"))
		_ = grpc.SetTrailer(ctx, metadata.Pairs("trail", "1"))
	}
	svc := &testService{
		unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			said(ctx)
			if in.FillUsername {
				return nil, status.Error(codes.NotFound, "asked")
			}
			return &pb.SimpleResponse{Payload: in.Payload}, nil
		},
		duplex: func(s pb.TestService_FullDuplexCallServer) error {
			said(s.Context())
			return echoStream(s)
		},
	}
	inProducer(t, svc, func(t *testing.T, _ *rpc.ClientConn, on grpc.ClientConnInterface) {
		c := pb.NewTestServiceClient(on)
		var head, trail metadata.MD
		var p peer.Peer
		finished := 0
		opts := []grpc.CallOption{grpc.Header(&head), grpc.Trailer(&trail), grpc.Peer(&p), grpc.OnFinish(func(error) { finished++ })}
		reported := func(what string) {
			t.Helper()
			if len(head["head"]) != 1 || len(trail["trail"]) != 1 || p.Addr == nil || finished != 1 {
				t.Errorf("%s: header %v, trailer %v, peer %v, OnFinish ran %d times", what, head, trail, p.Addr, finished)
			}
			head, trail, p, finished = nil, nil, peer.Peer{}, 0
		}
		for _, n := range []int{10, 300000} {
			out, err := c.UnaryCall(t.Context(), &pb.SimpleRequest{Payload: payload(n)}, opts...)
			if err != nil || len(out.Payload.Body) != n {
				t.Fatal(err)
			}
			reported("a unary call")
		}
		_, err := c.UnaryCall(t.Context(), &pb.SimpleRequest{FillUsername: true}, opts...)
		wantCode(t, err, codes.NotFound)
		if finished != 1 || len(trail["trail"]) != 1 {
			t.Errorf("a call that fails: trailer %v, OnFinish ran %d times", trail, finished)
		}
		finished = 0
		if err := sentCall(t.Context(), c, "stream"); err != nil {
			t.Fatal(err)
		}
		s, err := c.FullDuplexCall(t.Context(), opts...)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(&pb.StreamingOutputCallRequest{Payload: payload(10)}); err != nil {
			t.Fatal(err)
		}
		if h, err := s.Header(); err != nil || len(h["head"]) != 1 {
			t.Errorf("header %v, %v", h, err)
		}
		if _, ok := peer.FromContext(s.Context()); !ok {
			t.Error("the stream's context has no peer")
		}
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != io.EOF {
			t.Errorf("the end of a stream is %v", err)
		}
		if _, err := s.Recv(); err != io.EOF {
			t.Errorf("the end of a stream is %v the second time", err)
		}
		if len(s.Trailer()["trail"]) != 1 || finished != 1 {
			t.Errorf("trailer %v, OnFinish ran %d times", s.Trailer(), finished)
		}
		if s, err = c.FullDuplexCall(t.Context()); err != nil {
			t.Fatal(err)
		}
		_ = s.CloseSend()
		wantCode(t, s.Send(&pb.StreamingOutputCallRequest{}), codes.Internal) // after CloseSend
		if _, err := c.StreamingOutputCall(t.Context(), &pb.StreamingOutputCallRequest{}, grpc.UseCompressor("none such")); status.Code(err) != codes.Internal {
			t.Errorf("a compressor that is not registered: %v", err)
		}
	})
}

// TestProducersStreamEnds: a stream of a producer ends with its context and with the client, also while it waits for the server's window, for a
// message or for the header, and what it has sent is freed.
func TestProducersStreamEnds(t *testing.T) {
	for name, end := range map[string]func(cancel context.CancelFunc, cc *rpc.ClientConn){
		"cancel": func(cancel context.CancelFunc, _ *rpc.ClientConn) { cancel() },
		"close":  func(_ context.CancelFunc, cc *rpc.ClientConn) { cc.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			svc := &testService{duplex: func(s pb.TestService_FullDuplexCallServer) error {
				<-s.Context().Done()
				return s.Context().Err()
			}}
			inProducer(t, svc, func(t *testing.T, cc *rpc.ClientConn, on grpc.ClientConnInterface) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s, err := pb.NewTestServiceClient(on).FullDuplexCall(ctx)
				if err != nil {
					t.Fatal(err)
				}
				sent, got, head := make(chan error), make(chan error), make(chan error)
				go func() {
					err := error(nil)
					for err == nil {
						err = s.Send(&pb.StreamingOutputCallRequest{Payload: payload(100000)})
					}
					sent <- err
				}()
				go func() {
					_, err := s.Recv()
					got <- err
				}()
				go func() {
					_, err := s.Header()
					head <- err
				}()
				<-time.After(time.Second)
				synctest.Wait()
				end(cancel, cc)
				if err := <-sent; err != io.EOF {
					t.Errorf("Send: %v", err)
				}
				if err := <-head; err != nil {
					t.Errorf("Header: %v", err)
				}
				want := codes.Canceled
				if err := <-got; status.Code(err) != want {
					t.Errorf("Recv: %v", err)
				}
			})
		})
	}
}

// failingCreds are per-RPC credentials that fail in some way the first time.
type failingCreds struct {
	fail func() error
	done atomic.Bool
}

func (f *failingCreds) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if f.done.CompareAndSwap(false, true) {
		return nil, f.fail()
	}
	return nil, nil
}
func (*failingCreds) RequireTransportSecurity() bool { return false }

// TestProducersStreamIsNotOpened: a stream of a producer ends whose credentials fail, panic or end the goroutine, whichever method opens it, and
// its other methods say so.
func TestProducersStreamIsNotOpened(t *testing.T) {
	_, addr := startTarn(t, &testService{})
	cc := dialTarn(t, addr, rpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"`+producing+`":{}}]}`))
	b := &connOfProducer{}
	if _, err := pb.NewTestServiceClient(cc).EmptyCall(context.WithValue(ctxFor(t), builderKey{}, b), &pb.Empty{}); err != nil {
		t.Fatal(err)
	}
	// apart runs f, which may end its goroutine, and returns what it has panicked with.
	apart := func(t *testing.T, what string, f func()) (panicked any) {
		t.Helper()
		returned := make(chan struct{})
		go func() {
			defer close(returned)
			defer func() { panicked = recover() }()
			f()
		}()
		select {
		case <-returned:
		case <-time.After(hang):
			t.Fatalf("%s does not return", what)
		}
		return panicked
	}
	for name, fail := range map[string]func() error{
		"error": func() error { return status.Error(codes.Unauthenticated, "no") },
		"panic": func() error { panic("credentials") },
		"exit":  func() error { runtime.Goexit(); return nil },
	} {
		want := codes.Unknown
		if name == "error" {
			want = codes.Unauthenticated
		}
		for kind, desc := range map[string]*grpc.StreamDesc{"NewStream": {ClientStreams: true, ServerStreams: true}, "RecvMsg": {ServerStreams: true},
			"Header": {ServerStreams: true}, "SendMsg": {ServerStreams: true}} {
			t.Run(kind+" "+name, func(t *testing.T) {
				finished := make(chan error, 2)
				var s grpc.ClientStream
				panicked := apart(t, kind, func() {
					var err error
					s, err = b.cc.NewStream(ctxFor(t), desc, pb.TestService_StreamingOutputCall_FullMethodName,
						grpc.PerRPCCredentials(&failingCreds{fail: fail}), grpc.OnFinish(func(err error) { finished <- err }))
					if (err != nil) != (kind == "NewStream") {
						t.Errorf("NewStream: %v", err)
					}
					switch kind {
					case "RecvMsg":
						_ = s.RecvMsg(new(pb.StreamingOutputCallResponse))
					case "Header":
						_, _ = s.Header()
					case "SendMsg":
						_ = s.SendMsg(&pb.StreamingOutputCallRequest{})
					}
				})
				if (panicked != nil) != (name == "panic") {
					t.Errorf("the panic is %v", panicked)
				}
				if kind != "NewStream" {
					if kind != "SendMsg" {
						if p := apart(t, "SendMsg", func() {
							if err := s.SendMsg(&pb.StreamingOutputCallRequest{}); err != nil { // RecvMsg has the reason
								t.Errorf("SendMsg: %v", err)
							}
						}); p != nil {
							t.Errorf("SendMsg panics with %v", p)
						}
					}
					apart(t, "CloseSend", func() { _ = s.CloseSend() })
					apart(t, "RecvMsg", func() { wantCode(t, s.RecvMsg(new(pb.StreamingOutputCallResponse)), want) })
				}
				if n := len(finished); n != 1 {
					t.Errorf("OnFinish has run %d times", n)
				}
			})
		}
	}
}
