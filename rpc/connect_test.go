package rpc_test

import (
	"sync/atomic"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
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
