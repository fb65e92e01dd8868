package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
)

// puppet is a balancer that the test controls.
type puppet struct {
	name    string
	cc      balancer.ClientConn
	updates chan balancer.ClientConnState
	errs    chan error
	exits   chan struct{}
	closed  chan struct{}
}

// scriptedBuilder builds balancers and passes them to the running test through built.
type scriptedBuilder struct {
	name  string
	built chan *puppet
	// inline is the state that a balancer reports during Build and UpdateClientConnState.
	inline connectivity.State
}

func (b *scriptedBuilder) Name() string { return b.name }

func (b *scriptedBuilder) Build(cc balancer.ClientConn, _ balancer.BuildOptions) balancer.Balancer {
	s := &puppet{name: b.name, cc: cc, updates: make(chan balancer.ClientConnState, 8), errs: make(chan error, 8),
		exits: make(chan struct{}, 8), closed: make(chan struct{})}
	if b.inline != connectivity.Idle {
		s.show(b.inline)
	}
	b.built <- s
	return s
}

// Names of balancers that report nothing by themselves, and of one that reports READY from its callbacks.
var (
	scriptedA      = registerScripted("rpc_test_scripted_a", connectivity.Idle)
	scriptedB      = registerScripted("rpc_test_scripted_b", connectivity.Idle)
	scriptedC      = registerScripted("rpc_test_scripted_c", connectivity.Idle)
	scriptedInline = registerScripted("rpc_test_scripted_inline", connectivity.Ready)
)

func registerScripted(name string, inline connectivity.State) *scriptedBuilder {
	b := &scriptedBuilder{name: name, built: make(chan *puppet, 8), inline: inline}
	balancer.Register(b)
	return b
}

func (s *puppet) UpdateClientConnState(st balancer.ClientConnState) error {
	s.updates <- st
	return nil
}
func (s *puppet) ResolverError(err error)                                    { s.errs <- err }
func (s *puppet) UpdateSubConnState(balancer.SubConn, balancer.SubConnState) {}
func (s *puppet) ExitIdle()                                                  { s.exits <- struct{}{} }
func (s *puppet) Close()                                                     { close(s.closed) }

// show makes st the balancer's state. Its picker fails calls with an error that names the balancer.
func (s *puppet) show(st connectivity.State) {
	s.cc.UpdateState(balancer.State{ConnectivityState: st, Picker: base.NewErrPicker(status.Error(codes.PermissionDenied, s.name))})
}

// switching is a client whose balancer the test chooses.
type switching struct {
	t  *testing.T
	r  *manual.Resolver
	cc *rpc.ClientConn
	c  pb.TestServiceClient

	options resolver.BuildOptions // what the resolver was built with
}

func newSwitching(t *testing.T, opts ...rpc.DialOption) *switching {
	x := &switching{t: t, r: manual.NewBuilderWithScheme("switching")}
	built := make(chan struct{})
	x.r.BuildCallback = func(_ resolver.Target, _ resolver.ClientConn, o resolver.BuildOptions) {
		x.options = o
		close(built)
	}
	x.cc = dialTarn(t, "switching:///svc", append(opts, rpc.WithResolvers(x.r))...)
	x.c = pb.NewTestServiceClient(x.cc)
	x.cc.Connect()
	<-built
	return x
}

// switchingFromReady is newSwitching with a balancer that is READY.
func switchingFromReady(t *testing.T) (*switching, *puppet) {
	x := newSwitching(t)
	a := x.to(scriptedA)
	a.show(connectivity.Ready)
	return x, a
}

// to makes the resolver name b, and waits until the balancer has the resolver's state.
func (x *switching) to(b *scriptedBuilder) *puppet {
	x.t.Helper()
	x.name(b)
	s := <-b.built
	<-s.updates
	return s
}

func (x *switching) name(b *scriptedBuilder) {
	s := resolver.State{Addresses: []resolver.Address{{Addr: "of no server"}}}
	s.ServiceConfig = x.r.CC().ParseServiceConfig(fmt.Sprintf(`{"loadBalancingConfig":[{%q:{}}]}`, b.name))
	x.r.UpdateState(s)
}

// serves fails the test unless calls are picked by s and the client shows its state.
func (x *switching) serves(s *puppet, want connectivity.State) {
	x.t.Helper()
	_, err := x.c.EmptyCall(ctxFor(x.t), &pb.Empty{})
	if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), s.name) {
		x.t.Errorf("a call ended with %v, want a pick of %s", err, s.name)
	}
	if got := x.cc.GetState(); got != want {
		x.t.Errorf("the client's state is %v, want %v", got, want)
	}
}

func (s *puppet) open(t *testing.T) {
	t.Helper()
	select {
	case <-s.closed:
		t.Errorf("%s has been closed", s.name)
	default:
	}
}

// The tests follow the scenarios of grpc-go's tests of its graceful switch.

// The new balancer takes over with its first state that is not CONNECTING, whichever it is; until then the
// old one, which is READY, serves.
func TestSwitchWhenTheNewOneIsNotConnecting(t *testing.T) {
	for _, st := range []connectivity.State{connectivity.Ready, connectivity.TransientFailure, connectivity.Idle} {
		t.Run(st.String(), func(t *testing.T) {
			x, a := switchingFromReady(t)
			x.serves(a, connectivity.Ready)
			b := x.to(scriptedB)
			b.show(connectivity.Connecting)
			x.serves(a, connectivity.Ready)
			a.open(t)
			b.show(st)
			<-a.closed
			x.serves(b, st)
			b.open(t)
		})
	}
}

// A balancer that is not READY is replaced at any state of the new one.
func TestSwitchFromOneThatIsNotReady(t *testing.T) {
	x := newSwitching(t)
	a := x.to(scriptedA)
	a.show(connectivity.TransientFailure)
	b := x.to(scriptedB)
	a.open(t)
	b.show(connectivity.Connecting)
	<-a.closed
	x.serves(b, connectivity.Connecting)
}

// A balancer that leaves READY is replaced by the new one, whatever its state.
func TestSwitchWhenTheOldOneFails(t *testing.T) {
	x, a := switchingFromReady(t)
	b := x.to(scriptedB)
	b.show(connectivity.Connecting)
	x.serves(a, connectivity.Ready)
	a.show(connectivity.TransientFailure)
	<-a.closed
	x.serves(b, connectivity.Connecting)
}

// A third balancer replaces the one that has not taken over, while the first serves; and so does another of
// the first's type.
func TestSwitchAgainBeforeTheEnd(t *testing.T) {
	for _, third := range []*scriptedBuilder{scriptedC, scriptedA} {
		t.Run(third.name, func(t *testing.T) {
			x, a := switchingFromReady(t)
			b := x.to(scriptedB)
			c := x.to(third)
			<-b.closed
			b.show(connectivity.Ready) // too late
			x.serves(a, connectivity.Ready)
			c.show(connectivity.Ready)
			<-a.closed
			x.serves(c, connectivity.Ready)
		})
	}
}

// A resolver's state that names the current balancer is passed to it.
func TestSwitchHasNoEffectOnTheSameBalancer(t *testing.T) {
	x, a := switchingFromReady(t)
	x.name(scriptedA)
	<-a.updates
	b := x.to(scriptedB)
	x.name(scriptedB)
	<-b.updates // the one that has not taken over gets the following states
	select {
	case <-a.updates:
		t.Error("the balancer that is being replaced got a resolver's state")
	default:
	}
	x.serves(a, connectivity.Ready)
}

// TestSwitchResolverErrorAndExitIdle passes both to the latest balancer.
func TestSwitchResolverErrorAndExitIdle(t *testing.T) {
	x, a := switchingFromReady(t)
	b := x.to(scriptedB)
	gone := errors.New("the directory is closed")
	x.r.CC().ReportError(gone)
	if err := <-b.errs; !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
	x.cc.Connect()
	<-b.exits
	if len(a.errs) > 0 {
		t.Error("the balancer that is being replaced got a resolver's error")
	}
}

// Calls by a balancer that has been replaced have no effect, and its connections are closed.
func TestSwitchEndsTheOldOne(t *testing.T) {
	backend := startBackend(t)
	closed := make(chan struct{})
	x := newSwitching(t, rpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		return &closing{Conn: nc, closed: closed}, err
	}))
	a := x.to(scriptedA)
	ready := make(chan struct{})
	var sc balancer.SubConn
	sc, err := a.cc.NewSubConn([]resolver.Address{{Addr: backend.addr}}, balancer.NewSubConnOptions{StateListener: func(st balancer.SubConnState) {
		if st.ConnectivityState == connectivity.Ready {
			close(ready)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	sc.Connect()
	<-ready
	a.show(connectivity.Ready)
	b := x.to(scriptedB)
	b.show(connectivity.Ready)
	<-a.closed
	<-closed
	a.show(connectivity.TransientFailure)
	if _, err := a.cc.NewSubConn([]resolver.Address{{Addr: backend.addr}}, balancer.NewSubConnOptions{}); err == nil {
		t.Error("a balancer that has been replaced got a SubConn")
	}
	x.serves(b, connectivity.Ready)
}

// closing is a connection that reports its Close once.
type closing struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (c *closing) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// TestSwitchClose: Close closes both balancers.
func TestSwitchClose(t *testing.T) {
	x, a := switchingFromReady(t)
	b := x.to(scriptedB)
	if err := x.cc.Close(); err != nil {
		t.Fatal(err)
	}
	<-a.closed
	<-b.closed
	a.show(connectivity.Ready)
	b.show(connectivity.Ready)
	if got := x.cc.GetState(); got != connectivity.Shutdown {
		t.Errorf("the state is %v", got)
	}
}

// A balancer that is READY before Build has returned takes over at once.
func TestSwitchFromWithinBuild(t *testing.T) {
	x, a := switchingFromReady(t)
	s := x.to(scriptedInline)
	<-a.closed
	x.serves(s, connectivity.Ready)
}
