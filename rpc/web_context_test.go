package rpc_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
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
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// emptyCall is a server whose EmptyCall is a function.
type emptyCall struct {
	pb.UnimplementedTestServiceServer
	f func(context.Context) error
}

func (s emptyCall) EmptyCall(ctx context.Context, _ *pb.Empty) (*pb.Empty, error) {
	return new(pb.Empty), s.f(ctx)
}

// serveEmpty answers one request of Connect with f, made with header, through ServeHTTP, and returns the HTTP
// status.
func serveEmpty(t *testing.T, ctx context.Context, header http.Header, f func(context.Context) error) int {
	t.Helper()
	s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)))
	pb.RegisterTestServiceServer(s, emptyCall{f: f})
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/grpc.testing.TestService/EmptyCall", strings.NewReader("{}"))
	r.Header = header
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code
}

type testKey struct{}

// The context of a handler under ServeHTTP has the call's deadline, metadata, peer and transport stream and
// the values of the request's context, and stays valid when it is kept.
func TestWebContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kept, child context.Context
		begun := time.Now()
		parent, cancel := context.WithDeadline(context.WithValue(context.Background(), testKey{}, "value"), begun.Add(time.Hour))
		defer cancel()
		got := serveEmpty(t, parent, http.Header{"Connect-Timeout-Ms": {"5000"}, "X-One": {"1"}, "X-Two-Bin": {"AQI"}}, func(ctx context.Context) error {
			kept = ctx
			var stop func()
			child, stop = context.WithCancel(ctx)
			_ = stop // its parent ends it
			if at, ok := ctx.Deadline(); !ok || at.Sub(begun) != 5*time.Second {
				t.Errorf("the deadline is %v after the beginning", at.Sub(begun))
			}
			if ctx.Err() != nil || child.Err() != nil || ctx.Value(testKey{}) != "value" {
				t.Errorf("the context has ended: %v, %v, or has not the request's values", ctx.Err(), child.Err())
			}
			if m, ok := grpc.Method(ctx); !ok || m != "/grpc.testing.TestService/EmptyCall" {
				t.Errorf("the method is %q", m)
			}
			return nil
		})
		if got != http.StatusOK {
			t.Errorf("status %d", got)
		}
		synctest.Wait()
		for _, ctx := range []context.Context{kept, child} {
			select {
			case <-ctx.Done():
			default:
				t.Error("a context that is kept has not ended after the handler has returned")
			}
			if ctx.Err() != context.Canceled {
				t.Errorf("ended with %v", ctx.Err())
			}
			md, _ := metadata.FromIncomingContext(ctx)
			if got := md.Get("x-one"); len(got) != 1 || got[0] != "1" {
				t.Errorf("metadata %v", md)
			}
			if got := md.Get("x-two-bin"); len(got) != 1 || got[0] != "\x01\x02" {
				t.Errorf("metadata %v", md)
			}
			if p, ok := peer.FromContext(ctx); !ok || p.Addr.String() == "" {
				t.Error("no peer")
			}
		}
	})
}

// The context ends with the deadline and with the request's context, as do contexts derived from it.
func TestWebContextEnds(t *testing.T) {
	for _, derive := range []struct {
		name string
		from func(context.Context) (context.Context, func())
	}{
		{"itself", func(ctx context.Context) (context.Context, func()) { return ctx, func() {} }},
		{"derived", func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancel(context.WithValue(ctx, testKey{}, 1))
			return ctx, cancel
		}},
	} {
		t.Run(derive.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, ms := range []string{"0", "50"} {
					begun := time.Now()
					got := serveEmpty(t, context.Background(), http.Header{"Connect-Timeout-Ms": {ms}}, func(ctx context.Context) error {
						ctx, cancel := derive.from(ctx)
						defer cancel()
						<-ctx.Done()
						return ctx.Err()
					})
					if got != http.StatusGatewayTimeout || time.Since(begun) > 50*time.Millisecond {
						t.Errorf("timeout %s ms: status %d after %v", ms, got, time.Since(begun))
					}
				}
				parent, cancel := context.WithCancel(context.Background())
				time.AfterFunc(time.Second, cancel)
				got := serveEmpty(t, parent, http.Header{"Connect-Timeout-Ms": {"5000"}}, func(ctx context.Context) error {
					ctx, stop := derive.from(ctx)
					defer stop()
					ended := make(chan struct{})
					context.AfterFunc(ctx, func() { close(ended) })
					<-ended
					return ctx.Err()
				})
				if got != 499 {
					t.Errorf("a cancelled request: status %d", got)
				}
			})
		})
	}
}

// Such metadata is refused before the handler runs.
func TestWebMetadataThatIsNotBase64(t *testing.T) {
	got := serveEmpty(t, context.Background(), http.Header{"X-Bin": {"!"}}, func(context.Context) error {
		t.Error("the handler ran")
		return nil
	})
	if got != http.StatusBadRequest {
		t.Errorf("status %d", got)
	}
}

// endCount counts the stats.End of calls and those with INTERNAL.
type endCount struct{ all, internal atomic.Int64 }

func (*endCount) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*endCount) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*endCount) HandleConn(context.Context, stats.ConnStats)                       {}
func (e *endCount) HandleRPC(_ context.Context, s stats.RPCStats) {
	if end, ok := s.(*stats.End); ok {
		e.all.Add(1)
		if status.Code(end.Error) == codes.Internal {
			e.internal.Add(1)
		}
	}
}

// TestWebHandlerWithoutReturn: a call of ServeHTTP ends, for the debug page, for statistics handlers and for a goroutine that kept
// its stream, also when its handler does not return. The client gets INTERNAL, or, when the handler aborts the response, nothing more.
func TestWebHandlerWithoutReturn(t *testing.T) {
	for name, leave := range map[string]func(){
		"Goexit":          runtime.Goexit,
		"ErrAbortHandler": func() { panic(http.ErrAbortHandler) },
	} {
		for _, method := range []string{"UnaryCall", "StreamingOutputCall"} {
			var ends endCount
			var kept grpc.ServerStream
			s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.ObserveCalls(), rpc.StatsHandler(&ends))
			pb.RegisterTestServiceServer(s, &testService{
				unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
					leave()
					return &pb.SimpleResponse{}, nil
				},
				output: func(_ *pb.StreamingOutputCallRequest, out pb.TestService_StreamingOutputCallServer) error {
					kept = out
					leave()
					return nil
				},
			})
			r := httptest.NewRequestWithContext(ctxFor(t), http.MethodPost, "/grpc.testing.TestService/"+method, strings.NewReader("\x00\x00\x00\x00\x00"))
			r.Header.Set("Content-Type", "application/grpc-web+proto")
			w := httptest.NewRecorder()
			var wg sync.WaitGroup
			wg.Add(1)
			go func() {
				defer wg.Done()
				defer func() {
					if v := recover(); v != nil && v != http.ErrAbortHandler {
						t.Errorf("%s of %s: %v", name, method, v)
					}
				}()
				s.ServeHTTP(w, r)
				t.Errorf("%s of %s: ServeHTTP has returned", name, method)
			}()
			wg.Wait()
			if e := s.Endpoint(); e.Calls != 1 || e.Active != 0 || e.Failed != 1 || len(e.Waits) != 0 {
				t.Errorf("%s of %s: %d calls, %d active, %d failed, waits %v", name, method, e.Calls, e.Active, e.Failed, e.Waits)
			}
			if all, internal := ends.all.Load(), ends.internal.Load(); all != 1 || internal != 1 {
				t.Errorf("%s of %s: %d ends, %d with INTERNAL", name, method, all, internal)
			}
			if kept != nil {
				if err := kept.SendMsg(&pb.StreamingOutputCallResponse{}); err == nil {
					t.Errorf("%s: a message was sent after the call", name)
				}
			}
			want := "" // and net/http ends the response
			if name == "Goexit" {
				want = "\x80\x00\x00\x00@grpc-status: 13\r\ngrpc-message: the handler ended its goroutine\r\n"
			}
			if w.Body.String() != want {
				t.Errorf("%s of %s: the response is %q", name, method, w.Body)
			}
		}
	}
}
