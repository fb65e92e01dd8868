package rpc_test

import (
	"context"
	"net"
	"sync"
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

// TestPickFirst: without a service config the first address gets all calls. With shuffleAddressList clients do not all
// use the same one.
func TestPickFirst(t *testing.T) {
	used := func(bs []*backend) (hits []int64) {
		for _, b := range bs {
			hits = append(hits, b.hits.Swap(0))
		}
		return hits
	}
	bs := startBackends(t, 3)
	r := manual.NewBuilderWithScheme("names")
	r.InitialState(stateOf(bs...))
	c := pb.NewTestServiceClient(dialTarn(t, "names:///svc", rpc.WithResolvers(r)))
	for range 20 {
		if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := used(bs); n[0] != 20 {
		t.Errorf("the backends got %v of 20 calls", n)
	}
	const clients = 40 // all use one of three with a probability of 3^-39
	for range clients {
		r := manual.NewBuilderWithScheme("names")
		r.InitialState(stateOf(bs...))
		cc := dialNames(t, r, `{"pick_first":{"shuffleAddressList":true}}`)
		if _, err := pb.NewTestServiceClient(cc).UnaryCall(ctxFor(t), &pb.SimpleRequest{}); err != nil {
			t.Fatal(err)
		}
		cc.Close()
	}
	if n := used(bs); max(n[0], n[1], n[2]) == clients {
		t.Errorf("the backends got the calls of %v clients with shuffled addresses", n)
	}
}

// TestHappyEyeballs: when an address does not answer, pick_first tries the next one beside it after 250 ms (RFC 8305),
// and gives the first attempt up when that is READY.
func TestHappyEyeballs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true))
		pb.RegisterTestServiceServer(s, &testService{})
		lis := newPipes()
		served := make(chan error, 1)
		go func() { served <- s.Serve(lis) }()
		defer func() {
			s.Stop()
			if err := <-served; err != nil {
				t.Error(err)
			}
		}()
		r := manual.NewBuilderWithScheme("names")
		r.InitialState(resolver.State{Endpoints: []resolver.Endpoint{
			{Addresses: []resolver.Address{{Addr: "192.0.2.1:1"}}}, {Addresses: []resolver.Address{{Addr: "192.0.2.2:1"}}}}})
		givenUp := make(chan struct{})
		cc, err := rpc.NewClient("names:///svc", rpc.WithPool(tarntest.NewPool(t)), rpc.WithResolvers(r), rpc.WithTransportCredentials(insecure.NewCredentials()),
			rpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				if addr == "192.0.2.1:1" {
					<-ctx.Done()
					close(givenUp)
					return nil, ctx.Err()
				}
				return lis.dial(ctx, addr)
			}))
		if err != nil {
			t.Fatal(err)
		}
		defer cc.Close()
		began := time.Now()
		if _, err := pb.NewTestServiceClient(cc).UnaryCall(t.Context(), &pb.SimpleRequest{}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 250*time.Millisecond {
			t.Errorf("the call took %v", took)
		}
		<-givenUp
		if took := time.Since(began); took != 250*time.Millisecond {
			t.Errorf("the attempt without an answer was given up after %v", took)
		}
	})
}

// TestConnectExitsIdle: a client whose balancer has become IDLE because its connection broke connects again by Connect,
// which calls the balancer's ExitIdle, without a call.
func TestConnectExitsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true))
		lis := newPipes()
		served := make(chan error, 1)
		go func() { served <- s.Serve(lis) }()
		var mu sync.Mutex
		var conns []net.Conn
		cc, err := rpc.NewClient("passthrough:///svc", rpc.WithPool(tarntest.NewPool(t)), rpc.WithTransportCredentials(insecure.NewCredentials()),
			rpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				nc, err := lis.dial(ctx, addr)
				mu.Lock()
				defer mu.Unlock()
				conns = append(conns, nc)
				return nc, err
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
		for n := 1; n <= 2; n++ {
			cc.Connect()
			waitState(t, cc, connectivity.Ready)
			mu.Lock()
			got := len(conns)
			conns[got-1].Close()
			mu.Unlock()
			if got != n {
				t.Errorf("%d connections, want %d", got, n)
			}
			waitState(t, cc, connectivity.Idle)
		}
	})
}
