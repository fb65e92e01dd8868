package rpc_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// TestBrownOut has many callers give up on a slow method again and again, while
// another method of the same server, on the same connection, answers: no call of
// that one fails, and the connection stays.
func TestBrownOut(t *testing.T) {
	const callers, timeouts = 64, 6000
	for _, how := range []string{"deadline", "cancel"} {
		t.Run(how, func(t *testing.T) {
			svc := &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}}
			_, addr := startTarn(t, svc)
			var dials atomic.Int32
			cc := dialTarn(t, addr, rpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				dials.Add(1)
				return new(net.Dialer).DialContext(ctx, "tcp", addr)
			}))
			c := pb.NewTestServiceClient(cc)
			if _, err := c.EmptyCall(ctxFor(t), &pb.Empty{}); err != nil {
				t.Fatal(err)
			}
			var left atomic.Int32
			left.Store(timeouts)
			var wg sync.WaitGroup
			want := codes.DeadlineExceeded
			if how == "cancel" {
				want = codes.Canceled
			}
			for range callers {
				wg.Add(1)
				go func() {
					defer wg.Done()
					for left.Add(-1) > 0 {
						ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
						if how == "cancel" {
							cancel()
							ctx, cancel = context.WithCancel(context.Background())
							time.AfterFunc(5*time.Millisecond, cancel)
						}
						_, err := c.UnaryCall(ctx, &pb.SimpleRequest{})
						cancel()
						if status.Code(err) != want {
							t.Errorf("the slow method: %v", err)
							return
						}
					}
				}()
			}
			done := make(chan struct{})
			go func() {
				wg.Wait()
				close(done)
			}()
			healthy := 0
			for open := true; open; healthy++ {
				if _, err := c.EmptyCall(ctxFor(t), &pb.Empty{}); err != nil {
					t.Fatalf("healthy call %d: %v", healthy, err)
				}
				select {
				case <-done:
					open = false
				default:
				}
			}
			if n := dials.Load(); n != 1 {
				t.Errorf("%d connections for %d timed-out calls", n, timeouts)
			}
		})
	}
}
