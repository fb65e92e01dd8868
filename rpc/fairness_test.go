package rpc_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// gatedConn reads when its gate lets it, and counts what it reads.
type gatedConn struct {
	net.Conn
	gate *gate
}

type gate struct {
	read   atomic.Int64 // bytes
	over   int64        // reads wait once that many have come, until shut is closed
	filled chan struct{}
	shut   chan struct{}
}

func newGate(over int64) *gate {
	return &gate{over: over, filled: make(chan struct{}), shut: make(chan struct{})}
}

func (c gatedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if all := c.gate.read.Add(int64(n)); all >= c.gate.over && all-int64(n) < c.gate.over {
		close(c.gate.filled)
		<-c.gate.shut
	}
	return n, err
}

// gatedListener has one connection whose reads its gate counts.
type gatedListener struct {
	net.Listener
	gate *gate
}

func (l gatedListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return gatedConn{nc, l.gate}, nil
}

// TestFairCalls: replies, and requests, of 64 calls beside a long one have all arrived before most of the long one.
func TestFairCalls(t *testing.T) {
	const (
		long, short = 96 << 20, 64 << 10
		calls       = 64
		few         = 32 << 20 // the system holds some of them
	)
	max := grpc.MaxCallRecvMsgSize(2 * long)
	for name, x := range map[string]struct{ request, reply int }{"replies": {0, 1}, "requests": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			g := newGate(1 << 20)
			svc := &testService{unary: func(_ context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
				return &pb.SimpleResponse{Payload: &pb.Payload{Body: make([]byte, in.ResponseSize)}}, nil
			}}
			s := rpc.NewServer(rpc.MaxRecvMsgSize(2*long), rpc.MaxConcurrentStreams(2*calls), rpc.InitialWindowSize(2*long), rpc.InitialConnWindowSize(2*long))
			pb.RegisterTestServiceServer(s, svc)
			lis := listenTCP(t)
			served := gatedListener{lis, newGate(1 << 62)}
			if x.request > 0 {
				served.gate = g
			}
			go s.Serve(served)
			defer s.Stop()
			cc := dialTarn(t, lis.Addr().String(), rpc.WithDefaultCallOptions(max), rpc.WithInitialWindowSize(2*long), rpc.WithInitialConnWindowSize(2*long), rpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
				if err != nil || x.request > 0 {
					return nc, err
				}
				return gatedConn{nc, g}, nil
			}))
			c := pb.NewTestServiceClient(cc)
			call := func(ctx context.Context, n int) error {
				_, err := c.UnaryCall(ctx, &pb.SimpleRequest{ResponseSize: int32(n * x.reply), Payload: &pb.Payload{Body: make([]byte, n*x.request)}})
				return err
			}
			ctx, cancel := context.WithCancel(ctxFor(t))
			var longCall, shortCalls sync.WaitGroup
			longCall.Go(func() { call(ctx, long) })
			<-g.filled
			for range calls {
				shortCalls.Go(func() {
					if err := call(ctxFor(t), short); err != nil {
						t.Error(err)
					}
				})
			}
			close(g.shut)
			shortCalls.Wait()
			if n := g.read.Load(); n > calls*short+few {
				t.Errorf("%d bytes had come by the end of %d short calls, of %d bytes each", n, calls, short)
			}
			cancel()
			longCall.Wait()
		})
	}
}
