package rpc_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver/manual"
)

// checkedBackend is a backend with a health service.
func checkedBackend(t testing.TB) (*backend, *health.Server) {
	b, h := &backend{}, health.NewServer()
	s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true))
	pb.RegisterTestServiceServer(s, &testService{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		b.hits.Add(1)
		return &pb.SimpleResponse{}, nil
	}})
	healthpb.RegisterHealthServer(s, h)
	b.addr = serve(t, s)
	return b, h
}

// checkingBase is a balancer made with package base, as other projects do, with health checks on its
// SubConns' states.
const checkingBase = "rpc_test_checking"

// firstReady builds the picker of a balancer that uses one ready SubConn.
type firstReady func(sc balancer.SubConn) balancer.Picker

func (f firstReady) Build(info base.PickerBuildInfo) balancer.Picker {
	for sc := range info.ReadySCs {
		return f(sc)
	}
	return base.NewErrPicker(balancer.ErrNoSubConnAvailable)
}

type fixedPick struct{ sc balancer.SubConn }

func (p fixedPick) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	return balancer.PickResult{SubConn: p.sc}, nil
}

var _ = func() bool {
	balancer.Register(base.NewBalancerBuilder(checkingBase, firstReady(func(sc balancer.SubConn) balancer.Picker { return fixedPick{sc} }), base.Config{HealthCheck: true}))
	return true
}()

// Calls go to the backends that report SERVING, through balancers that listen to health and through those
// that see it in their SubConns' states.
func TestHealthCheck(t *testing.T) {
	for _, policy := range []string{"round_robin", checkingBase} {
		t.Run(policy, func(t *testing.T) {
			a, ah := checkedBackend(t)
			b, bh := checkedBackend(t)
			ah.SetServingStatus("svc", healthpb.HealthCheckResponse_NOT_SERVING)
			bh.SetServingStatus("svc", healthpb.HealthCheckResponse_SERVING)
			r := manual.NewBuilderWithScheme("names")
			r.InitialState(stateOf(a, b))
			config := rpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"` + policy + `":{}}],"healthCheckConfig":{"serviceName":"svc"}}`)
			cc := dialTarn(t, "names:///svc", rpc.WithResolvers(r), config)
			c := pb.NewTestServiceClient(cc)
			call := func() {
				t.Helper()
				if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}, grpc.WaitForReady(true)); err != nil {
					t.Fatal(err)
				}
			}
			for range 50 {
				call()
			}
			if a.hits.Load() != 0 || b.hits.Load() != 50 {
				t.Errorf("%d calls to the one that does not serve, %d to the other", a.hits.Load(), b.hits.Load())
			}
			ah.SetServingStatus("svc", healthpb.HealthCheckResponse_SERVING)
			bh.SetServingStatus("svc", healthpb.HealthCheckResponse_NOT_SERVING)
			for n := a.hits.Load(); a.hits.Load() < n+20; {
				call()
			}
			ah.SetServingStatus("svc", healthpb.HealthCheckResponse_NOT_SERVING)
			waitState(t, cc, connectivity.TransientFailure)
			_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{})
			wantCode(t, err, codes.Unavailable)

			off := dialTarn(t, "names:///svc", rpc.WithResolvers(r), config, rpc.WithDisableHealthCheck())
			if _, err := pb.NewTestServiceClient(off).UnaryCall(ctxFor(t), &pb.SimpleRequest{}); err != nil {
				t.Errorf("with health checks disabled: %v", err)
			}
		})
	}
}

// A server without the health service is healthy.
func TestHealthCheckUnimplemented(t *testing.T) {
	b := startBackend(t)
	r := manual.NewBuilderWithScheme("names")
	r.InitialState(stateOf(b))
	cc := dialNames(t, r, `{"round_robin":{}}`, rpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}],"healthCheckConfig":{"serviceName":""}}`))
	if _, err := pb.NewTestServiceClient(cc).UnaryCall(ctxFor(t), &pb.SimpleRequest{}); err != nil {
		t.Fatal(err)
	}
}

// A picker's metadata reaches the server, its Done is called once for each attempt with its result, and its
// status ends a call without a retry.
func TestPickResults(t *testing.T) {
	_, addr := startTarn(t, &testService{unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		md, _ := metadataOf(ctx)
		if md.Get("picked") == nil {
			t.Error("the picker's metadata is missing")
		}
		if st := in.GetResponseStatus(); st != nil {
			return nil, statusError(codes.Code(st.Code))
		}
		return &pb.SimpleResponse{}, nil
	}})
	cc := dialTarn(t, addr, rpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"`+tellingName+`":{}}],
		"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":3,"initialBackoff":"0.001s","maxBackoff":"0.001s","backoffMultiplier":1,"retryableStatusCodes":["UNAVAILABLE"]}}]}`))
	c := pb.NewTestServiceClient(cc)
	// The counters outlive a run.
	done, failed, received, drops := telling.done.Load(), telling.failed.Load(), telling.received.Load(), telling.drops.Load()
	if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}); err != nil {
		t.Fatal(err)
	}
	_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{ResponseStatus: &pb.EchoStatus{Code: int32(codes.Unavailable)}})
	wantCode(t, err, codes.Unavailable)
	st, err := c.FullDuplexCall(ctxFor(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := st.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Recv(); err == nil {
		t.Fatal("a message")
	}
	if n := telling.done.Load() - done; n != 1+3+1 {
		t.Errorf("Done was called %d times, want 5", n)
	}
	if n := telling.failed.Load() - failed; n != 3 {
		t.Errorf("Done was called for %d failures, want 3", n)
	}
	if n := telling.received.Load() - received; n != 5 {
		t.Errorf("Done was told %d times that bytes had come, want 5", n)
	}
	_, err = c.EmptyCall(ctxFor(t), &pb.Empty{})
	wantCode(t, err, codes.Unavailable)
	if n := telling.drops.Load() - drops; n != 1 {
		t.Errorf("%d picks of a call that the picker drops", n)
	}
}

// telling counts what the balancer tellingName reports.
var telling struct{ done, failed, received, drops atomic.Int64 }

const tellingName = "rpc_test_telling"

type tellingBuilder struct{}

func (tellingBuilder) Build(info base.PickerBuildInfo) balancer.Picker {
	for sc := range info.ReadySCs {
		return tellingPicker{sc}
	}
	return base.NewErrPicker(balancer.ErrNoSubConnAvailable)
}

type tellingPicker struct{ sc balancer.SubConn }

func (p tellingPicker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	if info.FullMethodName == pb.TestService_EmptyCall_FullMethodName {
		telling.drops.Add(1)
		return balancer.PickResult{}, statusError(codes.Unavailable)
	}
	return balancer.PickResult{SubConn: p.sc, Metadata: pairs("picked", "1"), Done: func(d balancer.DoneInfo) {
		telling.done.Add(1)
		if d.Err != nil {
			telling.failed.Add(1)
		}
		if d.BytesReceived {
			telling.received.Add(1)
		}
	}}, nil
}

var _ = func() bool {
	balancer.Register(base.NewBalancerBuilder(tellingName, tellingBuilder{}, base.Config{}))
	return true
}()

// TestProxy runs itself in another process: the environment's proxies are read once.
func TestProxy(t *testing.T) {
	faultnet.NeedsTCP(t, "the client itself dials the proxy")
	if isProxyChild() {
		runProxyChild(t)
		return
	}
	_, addr := startTarn(t, &testService{})
	proxy := startProxy(t, addr)
	runChild(t, "TestProxy", "HTTPS_PROXY=http://user:pass@"+proxy.addr, "NO_PROXY=direct.invalid", "TARN_PROXY_CHILD="+addr)
	proxy.mu.Lock()
	defer proxy.mu.Unlock()
	if len(proxy.asked) != 1 || proxy.asked[0] != "svc.invalid:443 Basic dXNlcjpwYXNz" {
		t.Errorf("the proxy was asked for %q", proxy.asked)
	}
}
