package rpc_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

// TestClientIdleTimeout: a client becomes IDLE when no call has begun and no stream was open for the timeout, twice
// that at most, and closes its resolver and its connection. Calls and a stream that lasts keep it from that, and
// the timeout counts from the stream's end. The next call makes them again.
func TestClientIdleTimeout(t *testing.T) {
	const timeout = 30 * time.Second
	synctest.Test(t, func(t *testing.T) {
		lis := newPipes()
		s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true))
		pb.RegisterTestServiceServer(s, &testService{})
		served := make(chan error, 1)
		go func() { served <- s.Serve(lis) }()
		var dialled, built, closed atomic.Int32
		r := manual.NewBuilderWithScheme("names")
		r.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: "pipe"}}})
		r.BuildCallback = func(resolver.Target, resolver.ClientConn, resolver.BuildOptions) { built.Add(1) }
		r.CloseCallback = func() { closed.Add(1) }
		cc, err := rpc.NewClient("names:///svc", rpc.WithPool(tarntest.NewPool(t)), rpc.WithResolvers(r),
			rpc.WithTransportCredentials(insecure.NewCredentials()), rpc.WithIdleTimeout(timeout),
			rpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				dialled.Add(1)
				return lis.dial(ctx, addr)
			}))
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			cc.Close()
			s.Stop()
			if err := <-served; err != nil {
				t.Error(err)
			}
		}()
		c := pb.NewTestServiceClient(cc)
		call := func() {
			t.Helper()
			if _, err := c.EmptyCall(t.Context(), &pb.Empty{}); err != nil {
				t.Fatal(err)
			}
		}
		after := func(d time.Duration, want connectivity.State) {
			t.Helper()
			<-time.After(d)
			synctest.Wait()
			if got := cc.GetState(); got != want {
				t.Fatalf("the client is %v, not %v", got, want)
			}
		}
		for round := int32(1); round <= 2; round++ {
			call()
			after(timeout-time.Second, connectivity.Ready)
			call()
			after(timeout-time.Second, connectivity.Ready)
			stream, err := c.FullDuplexCall(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			after(5*timeout, connectivity.Ready)
			if err := stream.CloseSend(); err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Recv(); err == nil {
				t.Fatal("a message without a request")
			}
			after(timeout-time.Second, connectivity.Ready)
			after(timeout+2*time.Second, connectivity.Idle)
			if b, e, d := built.Load(), closed.Load(), dialled.Load(); b != round || e != round || d != round {
				t.Fatalf("round %d: %d resolvers made, %d closed, %d connections", round, b, e, d)
			}
			if n := s.TransportStats().Conns; n != 0 {
				t.Fatalf("round %d: the server has %d connections", round, n)
			}
		}
	})
}
