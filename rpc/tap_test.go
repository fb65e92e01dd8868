package rpc_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

type tapKey struct{}

// Calls are accepted with the handle's context, or refused with its error, as by grpc-go.
func TestInTapHandle(t *testing.T) {
	handle := func(ctx context.Context, info *tap.Info) (context.Context, error) {
		switch v := info.Header.Get("want"); {
		case info.FullMethodName == pb.TestService_EmptyCall_FullMethodName:
			return nil, errors.New("not this one")
		case len(v) > 0:
			return nil, status.Error(codes.ResourceExhausted, v[0])
		}
		return context.WithValue(ctx, tapKey{}, "tapped"), nil
	}
	svc := &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		if ctx.Value(tapKey{}) != "tapped" {
			return nil, errors.New("the handler has another context")
		}
		if err := grpc.SetHeader(ctx, metadata.Pairs("h", "1")); err != nil {
			return nil, err
		}
		return &pb.SimpleResponse{}, nil
	}}
	servers := map[string]func() string{
		"tarn": func() string { _, addr := startTarn(t, svc, rpc.InTapHandle(handle)); return addr },
		"grpc": func() string { _, addr := startGRPC(t, svc, grpc.InTapHandle(handle)); return addr },
	}
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			c := pb.NewTestServiceClient(dialTarn(t, start()))
			if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}); err != nil {
				t.Fatal(err)
			}
			_, err := c.EmptyCall(ctxFor(t), &pb.Empty{})
			wantCode(t, err, codes.PermissionDenied)
			_, err = c.UnaryCall(metadata.AppendToOutgoingContext(ctxFor(t), "want", "less"), &pb.SimpleRequest{})
			wantCode(t, err, codes.ResourceExhausted)
			if status.Convert(err).Message() != "less" {
				t.Error(err)
			}
		})
	}
}

// The handle's context has the call's deadline, as in grpc-go. A handle that waits for it, which it must not, blocks the
// connection until then only.
func TestTapDeadline(t *testing.T) {
	svc := &testService{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		return &pb.SimpleResponse{}, nil
	}}
	const timeout = time.Second
	var waits []error
	handle := func(ctx context.Context, _ *tap.Info) (context.Context, error) {
		at, ok := ctx.Deadline()
		if left := time.Until(at); !ok || left != timeout {
			t.Errorf("the deadline is in %v (%v), want %v", left, ok, timeout)
		}
		if waits == nil {
			<-ctx.Done()
			waits = append(waits, ctx.Err())
		}
		return ctx, nil
	}
	synctest.Test(t, func(t *testing.T) {
		s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true), rpc.InTapHandle(handle))
		pb.RegisterTestServiceServer(s, svc)
		c := pb.NewTestServiceClient(dialPiped(t, s))
		for _, want := range []codes.Code{codes.DeadlineExceeded, codes.OK} {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			_, err := c.UnaryCall(ctx, &pb.SimpleRequest{})
			cancel()
			wantCode(t, err, want)
		}
		if !slices.Equal(waits, []error{context.DeadlineExceeded}) {
			t.Errorf("the handle's context ended with %v", waits)
		}
	})
}

// TestTapContextOfARefusedCall: the handle's context ends with a call that is refused, and not with its deadline, up to which a client could
// otherwise make the server keep it.
func TestTapContextOfARefusedCall(t *testing.T) {
	carriers := map[string]func(*testing.T, *rpc.Server) func(*http.Request) error{
		"Serve": func(t *testing.T, s *rpc.Server) func(*http.Request) error {
			addr := serve(t, s)
			rt := &h2http.Transport{Config: h2http.Config{Pool: tarntest.NewPool(t)}}
			t.Cleanup(rt.CloseIdleConnections)
			return func(r *http.Request) error {
				r.URL.Host = addr
				res, err := rt.RoundTrip(r)
				if err == nil {
					res.Body.Close()
				}
				return err
			}
		},
		"ServeHTTP": func(_ *testing.T, s *rpc.Server) func(*http.Request) error {
			return func(r *http.Request) error {
				r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/2.0", 2, 0
				s.ServeHTTP(httptest.NewRecorder(), r)
				return nil
			}
		},
	}
	requests := map[string]func(*http.Request){
		"unknown method":   func(r *http.Request) { r.URL.Path = testServicePath + "Nothing" },
		"unknown service":  func(r *http.Request) { r.URL.Path = "/nothing.Service/UnaryCall" },
		"unknown encoding": func(r *http.Request) { r.Header.Set("Grpc-Encoding", "none-such") },
		"the tap":          func(r *http.Request) { r.Header.Set("Refuse", "1") },
	}
	for carrier, start := range carriers {
		for what, change := range requests {
			for stats, opts := range map[string][]rpc.ServerOption{"": nil, " with statistics": {rpc.StatsHandler(newJournal())}} {
				t.Run(carrier+"/"+what+stats, func(t *testing.T) {
					given := make(chan context.Context, 1)
					s := rpc.NewServer(append(opts, rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true),
						rpc.InTapHandle(func(ctx context.Context, i *tap.Info) (context.Context, error) {
							given <- ctx
							if len(i.Header.Get("refuse")) > 0 {
								return nil, errors.New("no")
							}
							return ctx, nil
						}))...)
					pb.RegisterTestServiceServer(s, &testService{})
					call := start(t, s)
					for _, timeout := range []string{"", "1H"} {
						r, err := http.NewRequestWithContext(ctxFor(t), http.MethodPost, "http://server"+testServicePath+"UnaryCall", http.NoBody)
						if err != nil {
							t.Fatal(err)
						}
						if carrier == "ServeHTTP" {
							r = r.WithContext(context.Background()) // a server that does not end it
						}
						r.Header.Set("Content-Type", "application/grpc")
						if timeout != "" {
							r.Header.Set("Grpc-Timeout", timeout)
						}
						change(r)
						if err := call(r); err != nil {
							t.Fatal(err)
						}
						ctx := <-given
						select {
						case <-ctx.Done():
						case <-time.After(hang):
							t.Errorf("the context has not ended, timeout %q", timeout)
						}
					}
				})
			}
		}
	}
}

// TestTapContextAtTheDeadline: the context that a tap has passed on ends with DeadlineExceeded at the deadline of its call, whichever of their timers
// runs first.
func TestTapContextAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls = 100
		ends := make(chan error, calls)
		s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true), rpc.InTapHandle(func(ctx context.Context, _ *tap.Info) (context.Context, error) {
			return context.WithValue(ctx, tapKey{}, "tapped"), nil
		}))
		pb.RegisterTestServiceServer(s, &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			<-ctx.Done()
			ends <- ctx.Err()
			return nil, ctx.Err()
		}})
		n := newPipes()
		go s.Serve(n)
		defer s.Stop()
		c := pb.NewTestServiceClient(dialTarn(t, "passthrough:///x", rpc.WithContextDialer(n.dial)))
		// All deadlines pass at the same time, and the client's contexts do not end: its resets would be other ends.
		var all sync.WaitGroup
		for range calls {
			all.Go(func() {
				_, err := c.UnaryCall(neverDone{context.Background(), time.Second}, &pb.SimpleRequest{})
				wantCode(t, err, codes.DeadlineExceeded)
			})
		}
		all.Wait()
		for range calls {
			if end := <-ends; end != context.DeadlineExceeded {
				t.Errorf("a handler's context ended with %v", end)
			}
		}
	})
}
