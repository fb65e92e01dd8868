package xds_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	adminpb "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	routepb "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discoverypb "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	matcherpb "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"github.com/tarn-go/tarn/examples/xds/plane"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/rpc/xds"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/xds/csds"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// moves are how often a route moves to a new cluster while calls go on.
const moves = 40

// While a route moves to one new cluster after another no call of Tarn's client fails. Those of grpc-go's that fail are printed.
func TestRouteMovesUnderLoad(t *testing.T) {
	bs := startBackends(t, 2)
	var lost [2]int64
	var calls [2]int64
	each(t, func(t *testing.T, dial dial) {
		which := 0
		if strings.HasSuffix(t.Name(), "grpc-go") {
			which = 1
		}
		resources := func(n int) []proto.Message {
			all := []proto.Message{plane.Listener("svc", []*routepb.Route{plane.RouteTo("/", fmt.Sprint("c", n))})}
			for i := range n + 1 { // those of earlier routes may be in use
				name := fmt.Sprint("c", i)
				all = append(all, plane.Cluster(name), plane.Endpoints(name, []string{bs[i%2].addr}))
			}
			return all
		}
		p := startPlane(t, resources(0)...)
		c := dial(t, p.Bootstrap())
		wantFrom(t, t.Context(), c, bs[0])
		var failed, made atomic.Int64
		var first atomic.Value
		var move atomic.Int64              // the last one
		var arrived [moves + 1]atomic.Bool // after each, at the new cluster
		ctx, stop := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		for range 8 {
			callers.Go(func() {
				tick := time.NewTicker(time.Millisecond)
				defer tick.Stop()
				for {
					select {
					case <-tick.C:
					case <-ctx.Done():
						return
					}
					made.Add(1)
					n := move.Load()
					name, err := ask(context.WithoutCancel(ctx), c)
					if err != nil {
						failed.Add(1)
						first.CompareAndSwap(nil, err.Error())
						continue
					}
					if name == bs[n%2].name {
						arrived[n].Store(true)
					}
				}
			})
		}
		for n := 1; n <= moves; n++ {
			set(t, p, resources(n)...)
			move.Store(int64(n))
			eventually(t, "calls at the new cluster", arrived[n].Load)
		}
		stop()
		callers.Wait()
		lost[which], calls[which] = failed.Load(), made.Load()
		if which == 0 && failed.Load() > 0 {
			t.Errorf("%d of %d calls failed, the first with %v", failed.Load(), made.Load(), first.Load())
		}
	})
	t.Logf("calls lost in %d moves: Tarn %d of %d, grpc-go %d of %d", moves, lost[0], calls[0], lost[1], calls[1])
}

// Two clients in one program with different bootstraps.
func TestTwoBootstraps(t *testing.T) {
	bs := startBackends(t, 2)
	for i := range bs {
		p := startPlane(t, plane.Listener("svc", []*routepb.Route{plane.RouteTo("/", "a")}), plane.Cluster("a"), plane.Endpoints("a", []string{bs[i].addr}))
		defer wantFrom(t, t.Context(), dialTarn(t, p.Bootstrap()), bs[i])
	}
}

// A bootstrap that cannot be used fails the calls, with the reason.
func TestBadBootstrap(t *testing.T) {
	_, err := ask(t.Context(), dialTarn(t, []byte(`{"xds_servers":[]}`)))
	if wantCode(t, err, codes.Unavailable); !strings.Contains(err.Error(), "bootstrap") && !strings.Contains(err.Error(), "xds") {
		t.Error(err)
	}
}

// inside is the variable by which a test that runs itself says which client it is to use.
const inside = "TARN_XDS_INSIDE"

// The bootstrap of the environment, and what CSDS shows of its clients. grpc-go reads it when the program starts.
func clientStatus(t *testing.T) {
	for _, name := range []string{"tarn", "grpc-go"} {
		t.Run(name, func(t *testing.T) {
			bs := startBackends(t, 1)
			p := startPlane(t, plane.Listener("svc", []*routepb.Route{plane.RouteTo("/", "a")}), plane.Cluster("a"), plane.Endpoints("a", []string{bs[0].addr}))
			program, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestInside$")
			cmd.Env = append(os.Environ(), inside+"="+name, "GRPC_XDS_BOOTSTRAP_CONFIG="+string(p.Bootstrap()))
			if out, err := cmd.CombinedOutput(); err != nil || bs[0].hits.Load() != 1 {
				t.Errorf("%v, %d calls\n%s", err, bs[0].hits.Load(), out)
			}
		})
	}
}

// TestInside is the test of clientStatus in a program of its own.
func TestInside(t *testing.T) {
	var cc interface {
		grpc.ClientConnInterface
		Close() error
	}
	var err error
	switch os.Getenv(inside) {
	case "tarn":
		cc, err = rpc.NewClient("xds:///svc", rpc.WithResolvers(xds.NewResolver()), rpc.WithTransportCredentials(insecure.NewCredentials()))
	case "grpc-go":
		cc, err = grpc.NewClient("xds:///svc", grpc.WithTransportCredentials(insecure.NewCredentials()))
	default:
		return // it has the environment's client only when TestFeatures runs it
	}
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	if _, err := ask(t.Context(), pb.NewTestServiceClient(cc)); err != nil {
		t.Fatal(err)
	}
	shown, err := csds.NewClientStatusDiscoveryServer()
	if err != nil {
		t.Fatal(err)
	}
	defer shown.Close()
	r, err := shown.FetchClientStatus(t.Context(), &statuspb.ClientStatusRequest{})
	if err != nil || len(r.Config) == 0 || r.Config[0].GetNode().GetId() != plane.Node {
		t.Fatalf("CSDS shows %v, %v", r, err)
	}
	acked := map[string]int{}
	for _, c := range r.Config[0].GetGenericXdsConfigs() {
		if c.GetClientStatus() == adminpb.ClientResourceStatus_ACKED {
			acked[c.GetTypeUrl()[strings.LastIndex(c.GetTypeUrl(), ".")+1:]]++
		}
	}
	if want := map[string]int{"Listener": 1, "Cluster": 1, "ClusterLoadAssignment": 1}; !maps.Equal(acked, want) {
		t.Errorf("CSDS shows %v, want %v", acked, want)
	}
}

// A client without calls becomes IDLE, and the next call finds what the control plane has changed since.
func idleAndBack(t *testing.T) {
	bs := startBackends(t, 2)
	each(t, func(t *testing.T, dial dial) {
		to := func(b int) []proto.Message {
			return []proto.Message{plane.Listener("svc", []*routepb.Route{plane.RouteTo("/", "a")}), plane.Cluster("a"), plane.Endpoints("a", []string{bs[b].addr})}
		}
		p := startPlane(t, to(0)...)
		var cc stater
		c := dial(t, p.Bootstrap(), client{idle: 100 * time.Millisecond, state: &cc})
		for i := range 4 {
			set(t, p, to(i%2)...)
			wantFrom(t, t.Context(), c, bs[i%2])
			eventually(t, "the client is IDLE", func() bool { return cc.GetState() == connectivity.Idle })
		}
	})
}

// changes are how often weights and endpoints change under load.
const changes = 100

// While the weights of two clusters and the endpoints of one change every 20 ms no call fails, and all servers get calls.
func changesUnderLoad(t *testing.T) {
	bs := startBackends(t, 4)
	each(t, func(t *testing.T, dial dial) {
		resources := func(n int) []proto.Message {
			route := plane.RouteTo("/", "")
			route.GetRoute().ClusterSpecifier = &routepb.RouteAction_WeightedClusters{WeightedClusters: &routepb.WeightedCluster{Clusters: []*routepb.WeightedCluster_ClusterWeight{
				{Name: "a", Weight: wrapperspb.UInt32(uint32(10 + n%7))}, {Name: "b", Weight: wrapperspb.UInt32(uint32(10 + n%5))}}}}
			// One endpoint stays. The others come and go, and their weights change.
			endpoints := plane.Endpoints("a", [][]string{{bs[0].addr, bs[1].addr}, {bs[0].addr, bs[2].addr}, {bs[0].addr, bs[1].addr, bs[2].addr}}[n%3])
			for i, e := range endpoints.Endpoints[0].LbEndpoints {
				e.LoadBalancingWeight = wrapperspb.UInt32(uint32(1 + (n+i)%4))
			}
			return []proto.Message{plane.Listener("svc", []*routepb.Route{route}), plane.Cluster("a"), endpoints,
				plane.Cluster("b"), plane.Endpoints("b", []string{bs[3].addr})}
		}
		p := startPlane(t, resources(0)...)
		c := dial(t, p.Bootstrap())
		if _, err := ask(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		var before [4]int64
		for i, b := range bs {
			before[i] = b.hits.Load()
		}
		var made, failed atomic.Int64
		ctx, stop := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		for range 8 {
			callers.Go(func() {
				for tick := time.NewTicker(time.Millisecond); ; {
					select {
					case <-tick.C:
					case <-ctx.Done():
						tick.Stop()
						return
					}
					made.Add(1)
					if _, err := ask(context.WithoutCancel(ctx), c); err != nil {
						failed.Add(1)
						t.Errorf("a call failed: %v", err)
					}
				}
			})
		}
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for n := 1; n <= changes; n++ {
			<-tick.C
			set(t, p, resources(n)...)
		}
		set(t, p, resources(2)...) // with all endpoints
		eventually(t, "calls at all servers", func() bool {
			for i, b := range bs {
				if b.hits.Load() == before[i] {
					return false
				}
			}
			return true
		})
		stop()
		callers.Wait()
		t.Logf("calls lost in %d changes of weights and endpoints: %d of %d", changes, failed.Load(), made.Load())
	})
}

// watched are the requests that a control plane gets.
type watched struct {
	mu       sync.Mutex
	refused  int             // NACKs
	clusters map[string]bool // that are asked for
}

func (w *watched) option() plane.Option {
	return plane.Watch(func(r *discoverypb.DiscoveryRequest) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if r.GetErrorDetail() != nil {
			w.refused++
		}
		if strings.HasSuffix(r.GetTypeUrl(), ".Cluster") {
			w.clusters = map[string]bool{}
			for _, name := range r.GetResourceNames() {
				w.clusters[name] = true
			}
		}
	})
}

func (w *watched) refusals() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refused
}

func (w *watched) wants(cluster string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clusters[cluster]
}

// An update that the client refuses (NACK) changes nothing; the next one that is valid is used.
func invalidUpdate(t *testing.T) {
	bs := startBackends(t, 2)
	each(t, func(t *testing.T, dial dial) {
		w := new(watched)
		with := func(route *routepb.Route) []proto.Message {
			return []proto.Message{plane.Listener("svc", []*routepb.Route{route}),
				plane.Cluster("a"), plane.Endpoints("a", []string{bs[0].addr}), plane.Cluster("b"), plane.Endpoints("b", []string{bs[1].addr})}
		}
		p := startPlaneWith(t, []plane.Option{w.option()}, with(plane.RouteTo("/", "a"))...)
		c := dial(t, p.Bootstrap())
		wantFrom(t, t.Context(), c, bs[0])
		bad := plane.RouteTo("/", "b")
		bad.Match = &routepb.RouteMatch{PathSpecifier: &routepb.RouteMatch_SafeRegex{SafeRegex: &matcherpb.RegexMatcher{Regex: "("}}}
		set(t, p, with(bad)...)
		eventually(t, "the update is refused", func() bool { return w.refusals() > 0 })
		for range 20 {
			wantFrom(t, t.Context(), c, bs[0])
		}
		set(t, p, with(plane.RouteTo("/", "b"))...)
		eventually(t, "the next update is used", func() bool {
			name, err := ask(t.Context(), c)
			if err != nil && strings.HasSuffix(t.Name(), "/tarn") { // grpc-go's client loses calls when a route moves
				t.Fatal(err)
			}
			return name == bs[1].name
		})
	})
}

// When the route moves, a stream whose header has come does not keep the client's interest in its cluster. One that waits for it does.
func answeredStream(t *testing.T) {
	bs := startBackends(t, 2)
	each(t, func(t *testing.T, dial dial) {
		w := new(watched)
		to := func(cluster string) []proto.Message {
			return []proto.Message{plane.Listener("svc", []*routepb.Route{plane.RouteTo("/", cluster)}),
				plane.Cluster("a"), plane.Endpoints("a", []string{bs[0].addr}), plane.Cluster("b"), plane.Endpoints("b", []string{bs[1].addr})}
		}
		p := startPlaneWith(t, []plane.Option{w.option()}, to("a")...)
		c := dial(t, p.Bootstrap())
		s, err := c.FullDuplexCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		set(t, p, to("b")...)
		eventually(t, "calls at the other cluster", func() bool {
			name, err := ask(t.Context(), c)
			return err == nil && name == bs[1].name
		})
		if !w.wants("a") {
			t.Error("the cluster of a stream that waits for its header has been given up")
		}
		say := func() {
			if err := s.Send(&pb.StreamingOutputCallRequest{}); err != nil {
				t.Fatal(err)
			}
			if r, err := s.Recv(); err != nil || string(r.GetPayload().GetBody()) != bs[0].name {
				t.Errorf("%v, %v", r, err)
			}
		}
		say()
		eventually(t, "nothing is wanted of the cluster", func() bool { return !w.wants("a") })
		say()
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != io.EOF {
			t.Error(err)
		}
	})
}

// The environment's proxy is not used for endpoints that a control plane names. net/http reads it once, and does not use it for loopback
// addresses: the test runs itself, and the endpoint has a name that does not exist.
func environmentsProxy(t *testing.T) {
	for _, name := range []string{"tarn", "grpc-go"} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked.Add(1)
				w.WriteHeader(http.StatusBadGateway)
			}))
			defer proxy.Close()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestInsideProxy$", "-test.v")
			cmd.Env = append(os.Environ(), inside+"="+name, "HTTPS_PROXY="+proxy.URL, "NO_PROXY=")
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "produced zero addresses") && !strings.Contains(string(out), "svc.invalid") || asked.Load() != 0 {
				t.Errorf("%v; the proxy was asked %d times\n%s", err, asked.Load(), out)
			}
		})
	}
}

// TestInsideProxy is the test of environmentsProxy in a program of its own.
func TestInsideProxy(t *testing.T) {
	dialers := map[string]dial{"tarn": dialTarn, "grpc-go": dialGRPC}
	if os.Getenv(inside) == "" {
		return // only TestFeatures sets it
	}
	p := startPlane(t, plane.Listener("svc", []*routepb.Route{plane.RouteTo("/", "a")}), plane.Cluster("a"), plane.Endpoints("a", []string{"svc.invalid:1"}))
	_, err := ask(t.Context(), dialers[os.Getenv(inside)](t, p.Bootstrap()))
	t.Log(err)
	wantCode(t, err, codes.Unavailable)
}
