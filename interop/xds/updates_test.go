package xds_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	routepb "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	statuspb "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"github.com/tarn-go/tarn/examples/xds/plane"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/rpc/xds"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/xds/csds"
	"google.golang.org/protobuf/proto"
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

// The bootstrap of the environment: the test runs itself, since grpc-go reads it when the program starts.
func TestEnvironment(t *testing.T) {
	const inside = "TARN_XDS_INSIDE"
	if os.Getenv(inside) != "" {
		cc, err := rpc.NewClient("xds:///svc", rpc.WithResolvers(xds.NewResolver()), rpc.WithTransportCredentials(insecure.NewCredentials()))
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
			t.Errorf("CSDS shows %v, %v", r, err)
		}
		return
	}
	bs := startBackends(t, 1)
	p := startPlane(t, plane.Listener("svc", []*routepb.Route{plane.RouteTo("/", "a")}), plane.Cluster("a"), plane.Endpoints("a", []string{bs[0].addr}))
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestEnvironment$")
	cmd.Env = append(os.Environ(), inside+"=1", "GRPC_XDS_BOOTSTRAP_CONFIG="+string(p.Bootstrap()))
	if out, err := cmd.CombinedOutput(); err != nil || bs[0].hits.Load() != 1 {
		t.Errorf("%v, %d calls\n%s", err, bs[0].hits.Load(), out)
	}
}
