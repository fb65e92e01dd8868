package rpc_test

import (
	"testing"
	"testing/synctest"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
)

// listensLate is a balancer that shuts its SubConn down when it is READY, and registers a health listener after the connection has
// been lost meanwhile.
type listensLate struct {
	balancer.Balancer
	cc   balancer.ClientConn
	lose func()
	name string
	over chan struct{}
}

func (b listensLate) Name() string { return b.name }

func (b listensLate) Build(cc balancer.ClientConn, _ balancer.BuildOptions) balancer.Balancer {
	b.cc = cc
	return b
}

func (b listensLate) UpdateClientConnState(s balancer.ClientConnState) error {
	var sc balancer.SubConn
	sc, err := b.cc.NewSubConn(s.ResolverState.Addresses, balancer.NewSubConnOptions{StateListener: func(st balancer.SubConnState) {
		if st.ConnectivityState != connectivity.Ready {
			return
		}
		sc.Shutdown()
		b.lose()
		sc.RegisterHealthListener(func(balancer.SubConnState) {})
		synctest.Wait() // a watch would have begun
		close(b.over)
	}})
	if err == nil {
		sc.Connect()
	}
	return err
}

func (listensLate) ResolverError(error)                                        {}
func (listensLate) UpdateSubConnState(balancer.SubConn, balancer.SubConnState) {}
func (listensLate) Close()                                                     {}
func (listensLate) ExitIdle()                                                  {}

// TestHealthListenerAfterShutdown: a SubConn that has been shut down takes no health listener; its connection may be lost before the balancer
// returns.
func TestHealthListenerAfterShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true))
		over := make(chan struct{})
		balancer.Register(listensLate{name: "listens_late_test", over: over, lose: func() {
			s.Stop()
			synctest.Wait()
		}})
		cc := dialPiped(t, s, rpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"listens_late_test":{}}],"healthCheckConfig":{"serviceName":""}}`))
		cc.Connect()
		<-over
		synctest.Wait()
	})
}
