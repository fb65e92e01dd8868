package rpc_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/stats"
)

// callEvents notes the events of calls.
type callEvents struct {
	mu    sync.Mutex
	seen  []string
	begun chan struct{} // closed by the first Begin
}

func (e *callEvents) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (e *callEvents) HandleRPC(_ context.Context, s stats.RPCStats) {
	e.mu.Lock()
	defer e.mu.Unlock()
	name := strings.TrimPrefix(fmt.Sprintf("%T", s), "*stats.")
	if name == "PickerUpdated" { // the older name
		name = "DelayedPickComplete"
	}
	if len(e.seen) == 0 {
		close(e.begun)
	}
	e.seen = append(e.seen, name)
}

func (e *callEvents) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (e *callEvents) HandleConn(context.Context, stats.ConnStats) {}

// TestDelayedPickComplete: a call that begins before there is a connection tells so, once,
// when it has one, like grpc-go's; the next call does not.
func TestDelayedPickComplete(t *testing.T) {
	for _, kind := range []string{"unary", "stream"} {
		t.Run(kind, func(t *testing.T) {
			run := func(dial func(*callEvents, func(context.Context, string) (net.Conn, error)) grpc.ClientConnInterface) []string {
				e := &callEvents{begun: make(chan struct{})}
				c := pb.NewTestServiceClient(dial(e, func(ctx context.Context, addr string) (net.Conn, error) {
					select {
					case <-e.begun:
						return new(net.Dialer).DialContext(ctx, "tcp", addr)
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}))
				for range 2 {
					if err := hedgedCall(ctxFor(t), c, kind); err != nil {
						t.Fatal(err)
					}
				}
				e.mu.Lock()
				defer e.mu.Unlock()
				return slices.Clone(e.seen)
			}
			_, addr := startTarn(t, &testService{})
			want := run(func(e *callEvents, d func(context.Context, string) (net.Conn, error)) grpc.ClientConnInterface {
				return dialGRPC(t, "passthrough:///"+addr, grpc.WithStatsHandler(e), grpc.WithContextDialer(d))
			})
			got := run(func(e *callEvents, d func(context.Context, string) (net.Conn, error)) grpc.ClientConnInterface {
				return dialTarn(t, "passthrough:///"+addr, rpc.WithStatsHandler(e), rpc.WithContextDialer(d))
			})
			for who, seen := range map[string][]string{"tarn": got, "grpc-go": want} {
				if len(seen) < 4 || seen[0] != "Begin" || !slices.Equal(seen[1:3], []string{"DelayedPickComplete", "OutHeader"}) || slices.Contains(seen[3:], "DelayedPickComplete") {
					t.Errorf("%s tells %v", who, seen)
				}
			}
		})
	}
}
