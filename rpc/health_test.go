package rpc_test

import (
	"testing"
	"testing/synctest"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// TestHealthFollowsStop: with HealthServer, a Watch over a connection of the stopping server, and a Check by way of
// another server, say NOT_SERVING; GracefulStop waits for the watch, and Stop ends both.
func TestHealthFollowsStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := health.NewServer()
		s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true), rpc.HealthServer(h))
		probed := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true))
		healthpb.RegisterHealthServer(s, h)
		healthpb.RegisterHealthServer(probed, h)
		client, probe := healthpb.NewHealthClient(dialPiped(t, s)), healthpb.NewHealthClient(dialPiped(t, probed))
		watch, err := client.Watch(t.Context(), &healthpb.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		serves := func(want healthpb.HealthCheckResponse_ServingStatus) {
			t.Helper()
			if got, err := watch.Recv(); err != nil || got.Status != want {
				t.Fatalf("the watch says %v, %v", got, err)
			}
			if got, err := probe.Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil || got.Status != want {
				t.Fatalf("the probe says %v, %v", got, err)
			}
		}
		serves(healthpb.HealthCheckResponse_SERVING)
		stopped := make(chan struct{})
		go func() { defer close(stopped); s.GracefulStop() }()
		serves(healthpb.HealthCheckResponse_NOT_SERVING)
		synctest.Wait()
		select {
		case <-stopped:
			t.Error("GracefulStop has ended beside a call")
		default:
		}
		s.Stop()
		<-stopped
		// Stop alone calls Shutdown, too.
		again := health.NewServer()
		rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.HealthServer(again)).Stop()
		if got, err := again.Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil || got.Status != healthpb.HealthCheckResponse_NOT_SERVING {
			t.Errorf("after Stop the health is %v, %v", got, err)
		}
		if got, err := watch.Recv(); status.Code(err) != codes.Unavailable {
			t.Errorf("after Stop the watch says %v, %v", got, err)
		}
	})
}

// TestHealthCheckedClientLeavesGracefulStop: a client that checks health ends its watch at GOAWAY, so that
// GracefulStop does not wait for it.
func TestHealthCheckedClientLeavesGracefulStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := health.NewServer()
		s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true), rpc.HealthServer(h))
		healthpb.RegisterHealthServer(s, h)
		cc := dialPiped(t, s, rpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}],"healthCheckConfig":{"serviceName":""}}`))
		cc.Connect()
		waitState(t, cc, connectivity.Ready)
		s.GracefulStop()
	})
}
