package xds_test

import (
	"testing"

	routepb "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/tarn-go/tarn/examples/xds/plane"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// TestRelease names the release of grpc-go that the tests run with.
func TestRelease(t *testing.T) { t.Logf("grpc-go %s", grpc.Version) }

// TestAllocations: xDS adds at most as many allocations to a call of Tarn's as to one of grpc-go's. Each figure is that of a call with xDS less that of
// one without to the same server, by its address; both ends are included.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	bs := startBackends(t, 1)
	p := startPlane(t, plane.Listener("svc", []*routepb.Route{plane.RouteTo("/", "a")}), plane.Cluster("a"), plane.Endpoints("a", []string{bs[0].addr}))
	plain := map[string]func(t *testing.T) grpc.ClientConnInterface{
		"tarn": func(t *testing.T) grpc.ClientConnInterface {
			cc, err := rpc.NewClient(bs[0].addr, rpc.WithTransportCredentials(insecure.NewCredentials()), rpc.WithPool(tarntest.NewPool(t)))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { cc.Close() })
			return cc
		},
		"grpc-go": func(t *testing.T) grpc.ClientConnInterface {
			cc, err := grpc.NewClient(bs[0].addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { cc.Close() })
			return cc
		},
	}
	added := map[string]float64{}
	for _, of := range []struct {
		name string
		dial dial
	}{{"tarn", dialTarn}, {"grpc-go", dialGRPC}} {
		without := allocations(t, pb.NewTestServiceClient(plain[of.name](t)))
		with := allocations(t, of.dial(t, p.Bootstrap()))
		added[of.name] = with - without
		t.Logf("%s: %.0f allocations a call without xDS, %.0f with it", of.name, without, with)
	}
	if added["tarn"] > added["grpc-go"] {
		t.Errorf("xDS adds %.0f allocations to a call of Tarn's, and %.0f to one of grpc-go's", added["tarn"], added["grpc-go"])
	}
}

// allocations is how many a call makes, at the least of three times: what runs beside it may add some.
func allocations(t *testing.T, c pb.TestServiceClient) float64 {
	req := &pb.SimpleRequest{}
	call := func() {
		if _, err := c.UnaryCall(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	call()
	least := testing.AllocsPerRun(500, call)
	for range 2 {
		least = min(least, testing.AllocsPerRun(500, call))
	}
	return least
}
