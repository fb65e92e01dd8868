package rpc_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/stats"
)

// callEvents records the events of calls.
type callEvents struct {
	mu   sync.Mutex
	seen []string
}

func (e *callEvents) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (e *callEvents) HandleRPC(_ context.Context, s stats.RPCStats) {
	e.mu.Lock()
	defer e.mu.Unlock()
	name := strings.TrimPrefix(fmt.Sprintf("%T", s), "*stats.")
	if name == "PickerUpdated" { // the older name
		name = "DelayedPickComplete"
	}
	e.seen = append(e.seen, name)
}

func (e *callEvents) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (e *callEvents) HandleConn(context.Context, stats.ConnStats) {}

// slowCreds are credentials whose handshake takes a second.
type slowCreds struct {
	credentials.TransportCredentials
}

func (c slowCreds) ClientHandshake(ctx context.Context, name string, nc net.Conn) (net.Conn, credentials.AuthInfo, error) {
	t := time.NewTimer(time.Second)
	defer t.Stop()
	<-t.C
	return c.TransportCredentials.ClientHandshake(ctx, name, nc)
}

// A call that waits for a connection reports it, once, when it has one, where grpc-go does; the next call
// does not.
func TestDelayedPickComplete(t *testing.T) {
	for _, kind := range []string{"unary", "stream"} {
		t.Run(kind, func(t *testing.T) {
			e := &callEvents{}
			inBubble(t, &testService{}, []rpc.DialOption{rpc.WithStatsHandler(e), rpc.WithTransportCredentials(slowCreds{insecure.NewCredentials()})}, func(t *testing.T, c pb.TestServiceClient) {
				first := make(chan error, 1)
				go func() { first <- sentCall(t.Context(), c, kind) }()
				synctest.Wait() // the call waits for a connection, and the connection for the clock
				if err := <-first; err != nil {
					t.Fatal(err)
				}
				if err := sentCall(t.Context(), c, kind); err != nil {
					t.Fatal(err)
				}
			})
			seen := e.seen
			if len(seen) < 4 || !slices.Equal(seen[:3], []string{"Begin", "DelayedPickComplete", "OutHeader"}) || slices.Contains(seen[3:], "DelayedPickComplete") {
				t.Errorf("the events are %v", seen)
			}
		})
	}
}
