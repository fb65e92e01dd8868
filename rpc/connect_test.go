package rpc_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

// countedResolver is a builder of resolvers that do nothing.
type countedResolver struct{ built *atomic.Int32 }

func (countedResolver) Scheme() string { return "counted" }

func (r countedResolver) Build(resolver.Target, resolver.ClientConn, resolver.BuildOptions) (resolver.Resolver, error) {
	r.built.Add(1)
	return r, nil
}

func (countedResolver) ResolveNow(resolver.ResolveNowOptions) {}
func (countedResolver) Close()                                {}

// TestConnectBuildsTheResolver: when Connect returns, an idle client's resolver has been built, as in grpc-go; tests with grpc-go's manual resolver call
// its methods then, which panic before.
func TestConnectBuildsTheResolver(t *testing.T) {
	for range 20 {
		ours, stocks := new(atomic.Int32), new(atomic.Int32)
		cc := dialTarn(t, "counted:///x", rpc.WithResolvers(countedResolver{ours}))
		stock := dialGRPC(t, "counted:///x", grpc.WithResolvers(countedResolver{stocks}))
		cc.Connect()
		stock.Connect()
		if ours.Load() != 1 || stocks.Load() != 1 {
			t.Fatalf("tarn's resolver was built %d times, grpc-go's %d", ours.Load(), stocks.Load())
		}
	}
}

// asleep is a balancer that connects nothing and reports calls of ExitIdle, like grpc-go's lazy before the first of them.
type asleep struct {
	balancer.Balancer // nil
	woken             chan struct{}
	to                balancer.ClientConn
}

func (asleep) Name() string { return "asleep_test" }

func (a asleep) Build(to balancer.ClientConn, _ balancer.BuildOptions) balancer.Balancer {
	a.to = to
	return a
}

func (a asleep) UpdateClientConnState(balancer.ClientConnState) error {
	a.to.UpdateState(balancer.State{ConnectivityState: connectivity.Idle, Picker: base.NewErrPicker(balancer.ErrNoSubConnAvailable)})
	return nil
}

func (a asleep) ExitIdle() { a.woken <- struct{}{} }
func (asleep) Close()      {}

// TestConnectWakesTheBalancer: Connect of an idle client calls ExitIdle of the balancer to which its resolver has reported in Build, as
// in grpc-go: a balancer may connect nothing before.
func TestConnectWakesTheBalancer(t *testing.T) {
	woken := make(chan struct{}, 10)
	balancer.Register(asleep{woken: woken})
	const config = `{"loadBalancingConfig":[{"asleep_test":{}}]}`
	names := func() resolver.Builder {
		r := manual.NewBuilderWithScheme("whatever")
		r.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: "not dialled"}}})
		return r
	}
	for name, connect := range map[string]func(){
		"rpc":     dialTarn(t, "whatever:///x", rpc.WithResolvers(names()), rpc.WithDefaultServiceConfig(config)).Connect,
		"grpc-go": dialGRPC(t, "whatever:///x", grpc.WithResolvers(names()), grpc.WithDefaultServiceConfig(config)).Connect,
	} {
		connect()
		select {
		case <-woken:
		case <-ctxFor(t).Done():
			t.Errorf("%s: Connect has not called ExitIdle", name)
		}
	}
}

// closedConn records Close.
type closedConn struct {
	net.Conn
	closed chan struct{}
}

func (c closedConn) Close() error {
	defer close(c.closed)
	return c.Conn.Close()
}

// TestCloseDoesNotWaitForADialer: Close returns while a dialer runs that ignores its context, as in grpc-go, and the connection that
// the dialer returns later is closed. In the bubble a Close that waits for the dialer is a deadlock.
func TestCloseDoesNotWaitForADialer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		defer b.Close()
		late := closedConn{a, make(chan struct{})}
		release := make(chan struct{})
		cc, err := rpc.NewClient("passthrough:///x", rpc.WithPool(tarntest.NewPool(t)), rpc.WithTransportCredentials(insecure.NewCredentials()),
			rpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
				<-release
				return late, nil
			}))
		if err != nil {
			t.Fatal(err)
		}
		cc.Connect()
		synctest.Wait()
		if err := cc.Close(); err != nil {
			t.Fatal(err)
		}
		close(release)
		<-late.closed
	})
}
