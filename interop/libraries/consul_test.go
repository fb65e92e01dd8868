package libraries

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	_ "github.com/mbobakov/grpc-consul-resolver"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/tarn-go/tarn/rpc"
)

// agent simulates a Consul agent with one service. Its answers to blocking queries are as Consul's HTTP API
// has them: a query for the current index waits until the index changes.
type agent struct {
	mu      sync.Mutex
	index   int
	at      []string        // host:port
	changed chan struct{}   // closed by set
	ended   <-chan struct{} // closed at the test's end
}

func (a *agent) set(at ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.index++
	a.at = at
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *agent) get() (index int, at []string, changed chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.index, a.at, a.changed
}

// ServeHTTP answers /v1/health/service/svc.
func (a *agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/v1/health/service/svc") {
		http.NotFound(w, r)
		return
	}
	index, at, changed := a.get()
	for r.URL.Query().Get("index") == strconv.Itoa(index) {
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		case <-a.ended: // the resolver may ask once more while it is closed, and the server waits for that request
			return
		}
		index, at, changed = a.get()
	}
	type service struct {
		Address string
		Port    int
	}
	type entry struct{ Service service }
	entries := []entry{}
	for _, hp := range at {
		host, p, err := net.SplitHostPort(hp)
		if err != nil {
			panic(err)
		}
		port, err := strconv.Atoi(p)
		if err != nil {
			panic(err)
		}
		entries = append(entries, entry{service{host, port}})
	}
	w.Header().Set("X-Consul-Index", strconv.Itoa(index))
	json.NewEncoder(w).Encode(entries)
}

// TestConsul runs grpc-consul-resolver unchanged: instances of a service are added and removed
// under load, and no call fails. The resolver registers itself.
func TestConsul(t *testing.T) {
	one := serve(t, func(s grpc.ServiceRegistrar) { healthpb.RegisterHealthServer(s, health.NewServer()) })
	two := serve(t, func(s grpc.ServiceRegistrar) { healthpb.RegisterHealthServer(s, health.NewServer()) })
	a := &agent{changed: make(chan struct{}), ended: t.Context().Done()}
	a.set(one)
	api := httptest.NewServer(a)
	t.Cleanup(api.Close)
	t.Cleanup(api.CloseClientConnections)
	cc := dial(t, fmt.Sprintf("consul://%s/svc?healthy=true&wait=60s", strings.TrimPrefix(api.URL, "http://")),
		rpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`))
	ctx := bounded(t)
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
		a.set([][]string{{one, two}, {two}, {one, two}, {one}}[i%4]...)
		for n := calls.Load() + 20; calls.Load() < n && !t.Failed() && ctx.Err() == nil; {
			runtime.Gosched()
		}
	}
	stop.Store(true)
	wg.Wait()
	if calls.Load() < 400 && !t.Failed() {
		t.Errorf("only %d calls", calls.Load())
	}
}
