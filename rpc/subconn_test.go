package rpc_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
)

// oneSubConn is a balancer with one SubConn, whose addresses it updates.
const oneSubConn = "rpc_test_one_subconn"

type oneBuilder struct{}

func (oneBuilder) Name() string { return oneSubConn }

func (oneBuilder) Build(cc balancer.ClientConn, _ balancer.BuildOptions) balancer.Balancer {
	return &oneBalancer{cc: cc}
}

type oneBalancer struct {
	cc balancer.ClientConn
	sc balancer.SubConn
}

func (b *oneBalancer) UpdateClientConnState(s balancer.ClientConnState) (err error) {
	if b.sc != nil {
		b.cc.UpdateAddresses(b.sc, s.ResolverState.Addresses)
		return nil
	}
	b.sc, err = b.cc.NewSubConn(s.ResolverState.Addresses, balancer.NewSubConnOptions{StateListener: func(st balancer.SubConnState) {
		p := base.NewErrPicker(balancer.ErrNoSubConnAvailable)
		switch st.ConnectivityState {
		case connectivity.Idle:
			b.sc.Connect()
		case connectivity.Ready:
			p = fixedPick{b.sc}
		}
		b.cc.UpdateState(balancer.State{ConnectivityState: st.ConnectivityState, Picker: p})
	}})
	if err == nil {
		b.sc.Connect()
	}
	return err
}

func (b *oneBalancer) ResolverError(error)                                        {}
func (b *oneBalancer) UpdateSubConnState(balancer.SubConn, balancer.SubConnState) {}
func (b *oneBalancer) ExitIdle()                                                  {}
func (b *oneBalancer) Close()                                                     {}

var _ = func() bool {
	balancer.Register(oneBuilder{})
	return true
}()

// A SubConn keeps its connection while its address is among the new ones, is connected anew when it is not,
// and ends without any address.
func TestUpdateAddresses(t *testing.T) {
	bs := startBackends(t, 3)
	r := manual.NewBuilderWithScheme("names")
	r.InitialState(stateOf(bs[0]))
	cc := dialNames(t, r, `{"`+oneSubConn+`":{}}`)
	c := pb.NewTestServiceClient(cc)
	call := func() {
		t.Helper()
		if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}, grpc.WaitForReady(true)); err != nil {
			t.Fatal(err)
		}
	}
	call()
	r.UpdateState(stateOf(bs[1], bs[0]))
	for range 10 {
		call()
	}
	if bs[0].hits.Load() != 11 {
		t.Errorf("the connection was not kept: %d of 11 calls", bs[0].hits.Load())
	}
	r.UpdateState(stateOf(bs[2]))
	for range 10 {
		call()
	}
	if bs[2].hits.Load() != 10 {
		t.Errorf("%d of 10 calls after the move", bs[2].hits.Load())
	}
	r.UpdateState(stateOf())
	waitState(t, cc, connectivity.Idle)
	r.UpdateState(stateOf(bs[1]))
	cc.Connect()
}

// TestCloseAtAnyTime closes clients while they resolve, connect, switch balancers and make calls.
func TestCloseAtAnyTime(t *testing.T) {
	bs := startBackends(t, 2)
	for i := range 60 {
		r := manual.NewBuilderWithScheme("names")
		r.InitialState(stateOf(bs...))
		cc := dialNames(t, r, []string{`{"round_robin":{}}`, `{"pick_first":{}}`}[i%2])
		conn := rpc.AsGRPC(cc)
		done := make(chan struct{}, 3)
		go func() {
			_, _ = pb.NewTestServiceClient(conn).UnaryCall(ctxFor(t), &pb.SimpleRequest{}) // the client may be closed
			done <- struct{}{}
		}()
		go func() {
			if i%3 == 0 {
				cc.Connect()
			}
			cc.ResetConnectBackoff()
			done <- struct{}{}
		}()
		go func() {
			if i%2 == 0 {
				_ = conn.Close() // closed twice
			}
			_ = cc.Close()
			done <- struct{}{}
		}()
		for range 3 {
			<-done
		}
		if s := cc.GetState(); s != connectivity.Shutdown {
			t.Fatalf("the state is %v", s)
		}
	}
}

// TestConnectTimeout: an attempt to connect ends after MinConnectTimeout, also if that is short, or when the next attempt is due, if that is
// later. Without a MinConnectTimeout it has a second.
func TestConnectTimeout(t *testing.T) {
	for _, c := range []struct{ base, minimum, want time.Duration }{
		{10 * time.Millisecond, 200 * time.Millisecond, 200 * time.Millisecond},
		{300 * time.Millisecond, 200 * time.Millisecond, 300 * time.Millisecond},
		{10 * time.Millisecond, 5 * time.Second, 5 * time.Second},
		{10 * time.Millisecond, 0, time.Second},
		{2 * time.Second, 0, 2 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			took := make(chan time.Duration, 1)
			cc, err := rpc.NewClient("passthrough:///nowhere", rpc.WithPool(tarntest.NewPool(t)), rpc.WithTransportCredentials(insecure.NewCredentials()),
				rpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: c.minimum,
					Backoff: backoff.Config{BaseDelay: c.base, Multiplier: 1, MaxDelay: time.Minute}}),
				rpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
					began := time.Now()
					<-ctx.Done()
					select {
					case took <- time.Since(began):
					default:
					}
					return nil, ctx.Err()
				}))
			if err != nil {
				t.Fatal(err)
			}
			cc.Connect()
			if got := <-took; got != c.want {
				t.Errorf("base delay %v, minimum %v: the attempt took %v, want %v", c.base, c.minimum, got, c.want)
			}
			if err := cc.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWebConnectTimeout: a connection of a client of gRPC-Web or Connect has MinConnectTimeout, also if that is short, or a second.
func TestWebConnectTimeout(t *testing.T) {
	for minimum, want := range map[time.Duration]time.Duration{200 * time.Millisecond: 200 * time.Millisecond, 5 * time.Second: 5 * time.Second, 0: time.Second} {
		synctest.Test(t, func(t *testing.T) {
			cc, err := rpc.NewClient("http://nowhere", rpc.WithPool(tarntest.NewPool(t)), rpc.WithTransportCredentials(insecure.NewCredentials()), rpc.WithProtocol(rpc.Connect),
				rpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: minimum}),
				rpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}))
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			_, err = pb.NewTestServiceClient(cc).EmptyCall(t.Context(), &pb.Empty{})
			if got := time.Since(began); status.Code(err) != codes.Unavailable || got != want {
				t.Errorf("minimum %v: the attempt took %v, want %v: %v", minimum, got, want, err)
			}
			if err := cc.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
