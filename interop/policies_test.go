package interop

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/orca"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	_ "google.golang.org/grpc/balancer/leastrequest"
	_ "google.golang.org/grpc/balancer/randomsubsetting"
	_ "google.golang.org/grpc/balancer/ringhash"
	_ "google.golang.org/grpc/balancer/weightedroundrobin"
	_ "google.golang.org/grpc/xds" // outlier_detection_experimental
)

// loaded is a server that reports its load, counts its calls, and fails them all if it is
// broken.
type loaded struct {
	testgrpc.UnimplementedTestServiceServer
	addr   string
	cpu    float64
	broken atomic.Bool
	hits   atomic.Int64
}

func (l *loaded) EmptyCall(ctx context.Context, _ *testgrpc.Empty) (*testgrpc.Empty, error) {
	l.hits.Add(1)
	if r := orca.CallMetricsRecorderFromContext(ctx); r != nil {
		r.SetCPUUtilization(l.cpu)
		r.SetQPS(100)
	}
	if l.broken.Load() {
		return nil, status.Error(codes.Unavailable, "broken")
	}
	return &testgrpc.Empty{}, nil
}

// startLoaded runs servers with these CPU utilisations, of grpc-go and of Tarn by turns.
func startLoaded(t *testing.T, cpu ...float64) []*loaded {
	t.Helper()
	var out []*loaded
	for i, c := range cpu {
		l := &loaded{cpu: c}
		all := orca.NewServerMetricsRecorder()
		all.SetCPUUtilization(c)
		all.SetQPS(100)
		var s interface {
			grpc.ServiceRegistrar
			Serve(net.Listener) error
			Stop()
		}
		if perCall := orca.CallMetricsServerOption(nil); i%2 == 0 {
			s = rpc.NewServer(rpc.CallMetricsServerOption(perCall), rpc.Pool(tarntest.NewPool(t)))
		} else {
			s = grpc.NewServer(perCall)
		}
		testgrpc.RegisterTestServiceServer(s, l)
		if err := orca.Register(s, orca.ServiceOptions{ServerMetricsProvider: all}); err != nil {
			t.Fatal(err)
		}
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go s.Serve(lis)
		t.Cleanup(s.Stop)
		l.addr = lis.Addr().String()
		out = append(out, l)
	}
	return out
}

// eachClient runs f with a client of either implementation that balances over servers.
func eachClient(t *testing.T, policy string, cpu []float64, f func(t *testing.T, c testgrpc.TestServiceClient, servers []*loaded)) {
	t.Helper()
	config := fmt.Sprintf(`{"loadBalancingConfig":[%s]}`, policy)
	dial := map[string]func(*testing.T, *manual.Resolver) client{
		"tarn": func(t *testing.T, r *manual.Resolver) client {
			cc, err := rpc.NewClient("names:///svc", rpc.WithResolvers(r), rpc.WithPool(tarntest.NewPool(t)),
				rpc.WithTransportCredentials(insecure.NewCredentials()), rpc.WithDefaultServiceConfig(config))
			if err != nil {
				t.Fatal(err)
			}
			return cc
		},
		"grpc-go": func(t *testing.T, r *manual.Resolver) client {
			cc, err := grpc.NewClient("names:///svc", grpc.WithResolvers(r),
				grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(config))
			if err != nil {
				t.Fatal(err)
			}
			return cc
		},
	}
	for name, dial := range dial {
		t.Run(name, func(t *testing.T) {
			servers := startLoaded(t, cpu...)
			r := manual.NewBuilderWithScheme("names")
			var s resolver.State
			for _, l := range servers {
				s.Endpoints = append(s.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: l.addr}}})
			}
			r.InitialState(s)
			cc := dial(t, r)
			defer cc.Close()
			f(t, testgrpc.NewTestServiceClient(cc), servers)
		})
	}
}

func hits(servers []*loaded) []int64 {
	var out []int64
	for _, l := range servers {
		out = append(out, l.hits.Swap(0))
	}
	return out
}

// until makes calls until ok returns true, and fails after half a minute.
func until(t *testing.T, c testgrpc.TestServiceClient, servers []*loaded, ok func(n []int64) bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		hits(servers)
		for range 200 {
			_, _ = c.EmptyCall(testContext(t), &testgrpc.Empty{}) // some are meant to fail
		}
		n := hits(servers)
		if ok(n) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the servers get %v of 200 calls", n)
		}
	}
}

// TestWeightedRoundRobin: servers get calls by the load that they report, with each call
// and out of band.
func TestWeightedRoundRobin(t *testing.T) {
	for name, config := range map[string]string{
		"with each call": `{"weighted_round_robin":{"blackoutPeriod":"0s","weightUpdatePeriod":"0.1s"}}`,
		"out of band":    `{"weighted_round_robin":{"blackoutPeriod":"0s","weightUpdatePeriod":"0.1s","enableOobLoadReport":true,"oobReportingPeriod":"0.1s"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			eachClient(t, config, []float64{0.1, 0.8}, func(t *testing.T, c testgrpc.TestServiceClient, servers []*loaded) {
				until(t, c, servers, func(n []int64) bool { return n[0] > 150 && n[1] > 0 })
			})
		})
	}
}

// TestOutlierDetection: a server whose calls fail is left out.
func TestOutlierDetection(t *testing.T) {
	eachClient(t, `{"outlier_detection_experimental":{"interval":"0.2s","baseEjectionTime":"30s","maxEjectionTime":"60s","maxEjectionPercent":50,
		"failurePercentageEjection":{"threshold":50,"enforcementPercentage":100,"minimumHosts":3,"requestVolume":5},
		"childPolicy":[{"round_robin":{}}]}}`, []float64{0, 0, 0}, func(t *testing.T, c testgrpc.TestServiceClient, servers []*loaded) {
		servers[1].broken.Store(true)
		until(t, c, servers, func(n []int64) bool { return n[0] > 50 && n[1] == 0 && n[2] > 50 })
	})
}

// TestLeastRequest: every server gets more than 20 calls.
func TestLeastRequest(t *testing.T) {
	eachClient(t, `{"least_request_experimental":{"choiceCount":2}}`, []float64{0, 0, 0}, func(t *testing.T, c testgrpc.TestServiceClient, servers []*loaded) {
		until(t, c, servers, func(n []int64) bool { return n[0] > 20 && n[1] > 20 && n[2] > 20 })
	})
}

// Random subsetting uses as many servers as configured.
func TestRandomSubsetting(t *testing.T) {
	eachClient(t, `{"random_subsetting_experimental":{"subsetSize":2,"childPolicy":[{"round_robin":{}}]}}`, []float64{0, 0, 0, 0}, func(t *testing.T, c testgrpc.TestServiceClient, servers []*loaded) {
		until(t, c, servers, func(n []int64) bool {
			used := 0
			for _, x := range n {
				if x > 0 {
					used++
				}
			}
			return used == 2
		})
	})
}

// TestRingHash: calls with one value of the header go to one server, as long as it is
// there. grpc-go reads the experiment's variable when a process starts.
func TestRingHash(t *testing.T) {
	const experiment = "GRPC_EXPERIMENTAL_RING_HASH_SET_REQUEST_HASH_KEY"
	if os.Getenv(experiment) != "true" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestRingHash$", "-test.v")
		cmd.Env = append(os.Environ(), experiment+"=true")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS: TestRingHash") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	eachClient(t, `{"ring_hash_experimental":{"requestHashHeader":"who"}}`, []float64{0, 0, 0, 0}, func(t *testing.T, c testgrpc.TestServiceClient, servers []*loaded) {
		used := map[int]bool{}
		for who := range 40 {
			ctx := metadata.AppendToOutgoingContext(testContext(t), "who", fmt.Sprint(who))
			for range 5 {
				if _, err := c.EmptyCall(ctx, &testgrpc.Empty{}); err != nil {
					t.Fatal(err)
				}
			}
			for i, n := range hits(servers) {
				switch n {
				case 5:
					used[i] = true
				case 0:
				default:
					t.Errorf("%d of 5 calls of %d at server %d", n, who, i)
				}
			}
		}
		if len(used) < 2 {
			t.Errorf("all calls go to %v", used)
		}
	})
}

// mixedCase is pick_first under a name with capital letters.
type mixedCase struct{ balancer.Builder }

func (mixedCase) Name() string { return "MixedCase_Test" }

// TestNamesOfBalancers: loadBalancingPolicy finds a balancer whose name has capital letters, as grpc-go does, and one in
// the specification's words, ROUND_ROBIN, for which grpc-go takes pick_first.
func TestNamesOfBalancers(t *testing.T) {
	balancer.Register(mixedCase{balancer.Get("pick_first")})
	for _, name := range []string{"MixedCase_Test", "ROUND_ROBIN", "round_robin"} {
		cc, err := rpc.NewClient("passthrough:///x", rpc.WithTransportCredentials(insecure.NewCredentials()),
			rpc.WithDefaultServiceConfig(`{"loadBalancingPolicy":"`+name+`"}`))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		cc.Close()
	}
}
