package rpc_test

import (
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/connectivity"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver/manual"
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
