package rpc_test

import (
	"bytes"
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"golang.org/x/net/http2"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/stats"
)

const emptyPath = "/grpc.testing.TestService/EmptyCall"

// endHook calls a function at the End of EmptyCall.
type endHook struct {
	stats.Handler
	hook func()
}

type pathKey struct{}

func (h *endHook) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, pathKey{}, info.FullMethodName)
}

func (h *endHook) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.End); ok && ctx.Value(pathKey{}) == emptyPath {
		h.hook()
	}
}

func (h *endHook) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (h *endHook) HandleConn(context.Context, stats.ConnStats)                       {}

// TestResponseDoesNotWaitForStats: a response leaves also while a statistics handler blocks at the call's End, or has ended the goroutine there, and while
// the handlers of calls that came together with it block.
func TestResponseDoesNotWaitForStats(t *testing.T) {
	var received atomic.Pointer[chan struct{}] // closed when the client has the responses of a round
	wait := func() {
		select {
		case <-*received.Load():
		case <-time.After(10 * time.Second): // the test has failed
		}
	}
	for name, hook := range map[string]func(){"blocks": wait, "exits": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			svc := &testService{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
				wait()
				return &pb.SimpleResponse{}, nil
			}}
			_, addr := startTarn(t, svc, rpc.StatsHandler(&endHook{hook: hook}))
			p := rawClient(t, addr)
			for round := range 200 {
				ch := make(chan struct{})
				received.Store(&ch)
				var out bytes.Buffer
				fr := p.fr
				p.fr = http2.NewFramer(&out, nil)
				var ids []uint32
				for range 3 {
					ids = append(ids, p.open(false, ":path", emptyPath))
				}
				ids = append(ids, p.open(false))
				for _, id := range ids {
					if err := p.fr.WriteData(id, true, prefixed(0, nil)); err != nil {
						t.Fatal(err)
					}
				}
				p.fr = fr
				if _, err := p.nc.Write(out.Bytes()); err != nil {
					t.Fatal(err)
				}
				p.nc.SetReadDeadline(time.Now().Add(5 * time.Second))
				for left := len(ids); left > 0; {
					f, err := p.fr.ReadFrame()
					if err != nil {
						close(ch)
						t.Fatalf("round %d: %d responses have not come: %v", round, left, err)
					}
					if h, ok := f.(*http2.MetaHeadersFrame); ok && h.StreamEnded() {
						if left--; left == 1 {
							close(ch)
						}
					}
				}
			}
		})
	}
}
