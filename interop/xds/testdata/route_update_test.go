package xds_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/internal/stubserver"
	"google.golang.org/grpc/internal/testutils"
	"google.golang.org/grpc/internal/testutils/xds/e2e"
	"google.golang.org/grpc/internal/testutils/xds/e2e/setup"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	testpb "google.golang.org/grpc/interop/grpc_testing"

	v3listenerpb "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	v3routepb "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
)

// Tests that no RPC fails while a route moves from one cluster to a new one,
// again and again. The clusters of earlier routes stay, and all have the same,
// healthy backend.
func (s) TestRouteUpdate_NoRPCFails(t *testing.T) {
	const (
		serviceName = "my-service-client-side-xds"
		routeName   = "route-" + serviceName
		updates     = 50
	)
	managementServer, nodeID, _, xdsResolver := setup.ManagementServerAndResolver(t)
	server := stubserver.StartTestService(t, nil)
	defer server.Stop()

	ctx, cancel := context.WithTimeout(context.Background(), 6*defaultTestTimeout)
	defer cancel()
	resources := e2e.UpdateOptions{NodeID: nodeID, Listeners: []*v3listenerpb.Listener{e2e.DefaultClientListener(serviceName, routeName)}}
	route := func(n int) {
		cluster := fmt.Sprintf("cluster-%d", n)
		resources.Routes = []*v3routepb.RouteConfiguration{e2e.DefaultRouteConfig(routeName, serviceName, cluster)}
		resources.Clusters = append(resources.Clusters, e2e.DefaultCluster(cluster, cluster, e2e.SecurityLevelNone))
		resources.Endpoints = append(resources.Endpoints, e2e.DefaultEndpoint(cluster, "localhost", []uint32{testutils.ParsePort(t, server.Address)}))
		if err := managementServer.Update(ctx, resources); err != nil {
			t.Fatal(err)
		}
	}
	route(0)

	cc, err := grpc.NewClient("xds:///"+serviceName, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithResolvers(xdsResolver))
	if err != nil {
		t.Fatalf("grpc.NewClient() failed: %v", err)
	}
	defer cc.Close()
	client := testgrpc.NewTestServiceClient(cc)
	if _, err := client.EmptyCall(ctx, &testpb.Empty{}); err != nil {
		t.Fatalf("EmptyCall() failed: %v", err)
	}

	var made, failed atomic.Int64
	var first atomic.Value
	done := make(chan struct{})
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				made.Add(1)
				if _, err := client.EmptyCall(ctx, &testpb.Empty{}); err != nil {
					failed.Add(1)
					first.CompareAndSwap(nil, err.Error())
				}
			}
		})
	}
	for n := 1; n <= updates; n++ {
		route(n)
		<-time.After(20 * time.Millisecond)
	}
	close(done)
	callers.Wait()
	if n := failed.Load(); n > 0 {
		t.Errorf("%d of %d RPCs failed during %d updates, the first with: %v", n, made.Load(), updates, first.Load())
	}
	t.Logf("%d of %d RPCs failed", failed.Load(), made.Load())
}
