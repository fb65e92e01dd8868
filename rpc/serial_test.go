package rpc_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/roundrobin"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

// oneAtATime counts calls that begin while another runs.
type oneAtATime struct {
	busy            atomic.Bool
	calls, together atomic.Int32
}

func (o *oneAtATime) enter() func() {
	o.calls.Add(1)
	if o.busy.Swap(true) {
		o.together.Add(1)
	}
	runtime.Gosched() // so that another call can begin
	return func() { o.busy.Store(false) }
}

// watchedPolicy is round_robin, whose calls are watched.
const watchedPolicy = "rpc_test_watched"

var policyCalls oneAtATime

// lastWatched is the client of the policy that was made last.
var lastWatched atomic.Pointer[watchedClient]

type watchedBuilder struct{}

func (watchedBuilder) Name() string { return watchedPolicy }

func (watchedBuilder) Build(cc balancer.ClientConn, o balancer.BuildOptions) balancer.Balancer {
	defer policyCalls.enter()()
	w := &watchedClient{ClientConn: cc}
	lastWatched.Store(w)
	return &watchedBalancer{balancer.Get(roundrobin.Name).Build(w, o)}
}

type watchedBalancer struct{ balancer.Balancer }

func (b *watchedBalancer) UpdateClientConnState(s balancer.ClientConnState) error {
	defer policyCalls.enter()()
	return b.Balancer.UpdateClientConnState(s)
}

func (b *watchedBalancer) ResolverError(err error) {
	defer policyCalls.enter()()
	b.Balancer.ResolverError(err)
}

func (b *watchedBalancer) ExitIdle() {
	defer policyCalls.enter()()
	if e, ok := b.Balancer.(interface{ ExitIdle() }); ok { // grpc before 1.75 has it apart
		e.ExitIdle()
	}
}

func (b *watchedBalancer) Close() {
	defer policyCalls.enter()()
	b.Balancer.Close()
}

// watchedClient watches the calls with which SubConns report their states.
type watchedClient struct{ balancer.ClientConn }

func (c *watchedClient) NewSubConn(a []resolver.Address, o balancer.NewSubConnOptions) (balancer.SubConn, error) {
	if f := o.StateListener; f != nil {
		o.StateListener = func(s balancer.SubConnState) {
			defer policyCalls.enter()()
			f(s)
		}
	}
	return c.ClientConn.NewSubConn(a, o)
}

var _ = func() bool {
	balancer.Register(watchedBuilder{})
	return true
}()

// Calls of a balancer, by which it learns of addresses, errors, the states of its SubConns, and the client's
// end, are made one at a time, and so are calls of a resolver.
func TestCallsOneAtATime(t *testing.T) {
	bs := startBackends(t, 4)
	var names oneAtATime
	r := manual.NewBuilderWithScheme("names")
	r.InitialState(stateOf(bs[0]))
	r.BuildCallback = func(resolver.Target, resolver.ClientConn, resolver.BuildOptions) { defer names.enter()() }
	r.ResolveNowCallback = func(resolver.ResolveNowOptions) { defer names.enter()() }
	r.CloseCallback = func() { defer names.enter()() }
	cc := dialNames(t, r, `{"`+watchedPolicy+`":{}}`)
	c := pb.NewTestServiceClient(cc)
	if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 7 {
		wg.Go(func() {
			for n := range 50 {
				switch i {
				case 0:
					r.UpdateState(stateOf(bs[n%4], bs[(n+1)%4]))
				case 1:
					r.CC().ReportError(statusError(14))
				case 2:
					cc.Connect()
				case 3:
					if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}); err != nil {
						t.Error(err)
					}
				default:
					lastWatched.Load().ResolveNow(resolver.ResolveNowOptions{})
				}
			}
		})
	}
	wg.Wait()
	if err := cc.Close(); err != nil {
		t.Error(err)
	}
	if n, calls := policyCalls.together.Load(), policyCalls.calls.Load(); n != 0 || calls < 100 {
		t.Errorf("%d of %d calls of the balancer began while another ran", n, calls)
	}
	if n, calls := names.together.Load(), names.calls.Load(); n != 0 || calls < 50 {
		t.Errorf("%d of %d calls of the resolver began while another ran", n, calls)
	}
}
