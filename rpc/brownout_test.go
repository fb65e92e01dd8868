package rpc_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// impatient is the context of a call that ends, by its deadline or by cancellation, when the test says so.
type impatient struct {
	context.Context
	at   time.Time // its deadline; zero: it is cancelled
	done chan struct{}
	once sync.Once
}

func (c *impatient) end()                        { c.once.Do(func() { close(c.done) }) }
func (c *impatient) Deadline() (time.Time, bool) { return c.at, !c.at.IsZero() }
func (c *impatient) Done() <-chan struct{}       { return c.done }

func (c *impatient) Err() error {
	select {
	case <-c.done:
	default:
		return nil
	}
	if c.at.IsZero() {
		return context.Canceled
	}
	return context.DeadlineExceeded
}

// TestBrownOut has many callers cancel a slow method again and again, while another method of the same
// server, on the same connection, answers: no call of that one fails, and the connection stays. A caller
// cancels after its handler has started: a server that reads a request and its reset at once cannot see that
// there was time between them.
func TestBrownOut(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		const callers = 64
		const timeouts = 1500
		for _, how := range []string{"deadline", "cancel"} {
			t.Run(how, func(t faultnet.OnKind) {
				var waits [callers]atomic.Pointer[impatient]
				svc := &testService{unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
					time.AfterFunc(5*time.Millisecond, waits[in.Payload.Body[0]].Load().end)
					<-ctx.Done()
					return nil, ctx.Err()
				}}
				// With the lowest limit two resets that counted would be enough for reading to be held back, and the connection to end.
				_, addr := startTarn(t, svc, rpc.MaxResets(1))
				var dials atomic.Int32
				cc := dialTarn(t, addr, rpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
					dials.Add(1)
					return dialOver(t)(ctx, addr)
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
				for i := range callers {
					wg.Add(1)
					go func() {
						defer wg.Done()
						for left.Add(-1) > 0 {
							ctx := &impatient{Context: context.Background(), done: make(chan struct{})}
							if how == "deadline" {
								ctx.at = time.Now().Add(5 * time.Millisecond)
							}
							waits[i].Store(ctx)
							_, err := c.UnaryCall(ctx, &pb.SimpleRequest{Payload: &pb.Payload{Body: []byte{byte(i)}}})
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
	})
}
