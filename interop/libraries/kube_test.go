package libraries

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sercand/kuberesolver/v6"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/tarn-go/tarn/rpc"
)

// kube simulates a Kubernetes API with one service: each slice sent to changes is the next event for
// watchers.
func kube(t *testing.T, port int, changes <-chan []string) string {
	slice := func(ips []string) kuberesolver.EndpointSlice {
		yes := true
		s := kuberesolver.EndpointSlice{Ports: []kuberesolver.EndpointPort{{Name: "grpc", Port: port}}}
		for _, ip := range ips {
			s.Endpoints = append(s.Endpoints, kuberesolver.Endpoint{Addresses: []string{ip}, Conditions: kuberesolver.EndpointConditions{Ready: &yes}})
		}
		return s
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, "/watch/") {
			json.NewEncoder(w).Encode(kuberesolver.EndpointSliceList{})
			return
		}
		enc := json.NewEncoder(w)
		for {
			select {
			case ips := <-changes:
				enc.Encode(kuberesolver.Event{Type: kuberesolver.Modified, Object: slice(ips)})
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(s.CloseClientConnections)
	t.Cleanup(s.Close)
	return s.URL
}

// TestKubernetes runs kuberesolver unchanged: endpoints of a service are added and removed
// under load, and no call fails.
func TestKubernetes(t *testing.T) {
	addr := serve(t, func(s grpc.ServiceRegistrar) { healthpb.RegisterHealthServer(s, health.NewServer()) })
	_, p, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(p)
	if err != nil {
		t.Fatal(err)
	}
	// Every address of 127/8 is this host's; the server listens on 127.0.0.1 alone.
	changes := make(chan []string)
	r := kuberesolver.NewBuilder(kuberesolver.NewInsecureK8sClient(kube(t, port, changes)), "kubernetes")
	cc := dial(t, "kubernetes:///svc.namespace:grpc", rpc.WithResolvers(r),
		rpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`))
	ctx := bounded(t)
	cc.Connect()
	changes <- []string{"127.0.0.1"}
	var stop atomic.Bool
	var calls atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for !stop.Load() {
				if _, err := healthpb.NewHealthClient(cc).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true)); err != nil {
					t.Error(err)
					return
				}
				calls.Add(1)
			}
		})
	}
	for i := range 20 {
		changes <- [][]string{{"127.0.0.1"}, {"127.0.0.1", "127.0.0.2"}}[i%2]
		for n := calls.Load() + 20; calls.Load() < n && !t.Failed(); {
			runtime.Gosched()
		}
	}
	stop.Store(true)
	wg.Wait()
}
