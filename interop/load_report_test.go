package interop

import (
	"context"
	"net"
	"reflect"
	"testing"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
)

// loadSeen is a balancer that records the load reports of calls.
const loadSeen = "interop_load_seen"

var loadReports = make(chan any, 1)

type loadPickers struct{}

func (loadPickers) Build(info base.PickerBuildInfo) balancer.Picker {
	for sc := range info.ReadySCs {
		return loadPicker{sc}
	}
	return base.NewErrPicker(balancer.ErrNoSubConnAvailable)
}

type loadPicker struct{ sc balancer.SubConn }

func (p loadPicker) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	return balancer.PickResult{SubConn: p.sc, Done: func(d balancer.DoneInfo) { loadReports <- d.ServerLoad }}, nil
}

var _ = func() bool {
	balancer.Register(base.NewBalancerBuilder(loadSeen, loadPickers{}, base.Config{}))
	return true
}()

// reporting is a server that sends load reports in its trailer.
type reporting struct {
	testgrpc.UnimplementedTestServiceServer
	reports []string
}

func (r *reporting) EmptyCall(ctx context.Context, _ *testgrpc.Empty) (*testgrpc.Empty, error) {
	return &testgrpc.Empty{}, grpc.SetTrailer(ctx, metadata.MD{"endpoint-load-metrics-bin": r.reports})
}

// TestLoadReports: balancers get the report of a trailer that has one, and none of a trailer with several or with one that is malformed,
// as in grpc-go.
func TestLoadReports(t *testing.T) {
	const report = "\x09\x00\x00\x00\x00\x00\x00\xe0\x3f" // cpu_utilization: 0.5
	r := &reporting{}
	s := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(s, r)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(lis)
	t.Cleanup(s.Stop)
	const config = `{"loadBalancingConfig":[{"` + loadSeen + `":{}}]}`
	theirs, err := grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(config))
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	ours, err := rpc.NewClient(lis.Addr().String(), rpc.WithTransportCredentials(insecure.NewCredentials()), rpc.WithDefaultServiceConfig(config),
		rpc.WithPool(tarntest.NewPool(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	for _, c := range []struct {
		name    string
		reports []string
		seen    bool
	}{
		{"none", nil, false},
		{"one", []string{report}, true},
		{"two", []string{report, report}, false},
		{"malformed", []string{"\xff"}, false},
	} {
		r.reports = c.reports
		for client, cc := range map[string]grpc.ClientConnInterface{"grpc": theirs, "tarn": ours} {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			_, err := testgrpc.NewTestServiceClient(cc).EmptyCall(ctx, &testgrpc.Empty{})
			cancel()
			if err != nil {
				t.Fatalf("%s, %s: %v", client, c.name, err)
			}
			if got := <-loadReports; (got != nil && !reflect.ValueOf(got).IsNil()) != c.seen { // grpc-go's may be a nil report
				t.Errorf("%s, %s: the balancer got %v", client, c.name, got)
			}
		}
	}
}
