package rpc_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
)

type clusterKey struct{}

// byCluster picks the address that the call's context names.
type byCluster struct{}

func (byCluster) Build(info base.PickerBuildInfo) balancer.Picker {
	p := clusterPicker{}
	for sc, i := range info.ReadySCs {
		p[i.Address.Addr] = sc
	}
	return p
}

type clusterPicker map[string]balancer.SubConn

func (p clusterPicker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	if sc := p[info.Ctx.Value(clusterKey{}).(string)]; sc != nil {
		return balancer.PickResult{SubConn: sc}, nil
	}
	return balancer.PickResult{}, balancer.ErrNoSubConnAvailable
}

// routes is a selector that chooses a cluster by the call's metadata.
type routes struct{ live atomic.Int64 }

func (r *routes) SelectConfig(i rpc.CallInfo) (rpc.CallConfig, error) {
	md, _ := metadata.FromOutgoingContext(i.Context)
	to := md["to"]
	switch {
	case i.Method == "/grpc.testing.TestService/EmptyCall":
		return rpc.CallConfig{}, status.Error(codes.PermissionDenied, "no route")
	case len(to) == 0:
		return rpc.CallConfig{}, errors.New("no route for this")
	case to[0] == "illegal":
		return rpc.CallConfig{}, status.Error(codes.NotFound, "no route")
	}
	r.live.Add(1)
	out := rpc.CallConfig{Context: context.WithValue(i.Context, clusterKey{}, to[0]), Timeout: 5 * time.Second,
		Ended: func() { r.live.Add(-1) }}
	retry := rpc.RetryPolicy{MaxAttempts: 2, InitialBackoff: time.Millisecond, MaxBackoff: time.Millisecond,
		BackoffMultiplier: 1, RetryableStatusCodes: []codes.Code{codes.Aborted}}
	switch policy := append(md["policy"], "retry")[0]; policy {
	case "hedging":
		out.Hedging = &rpc.HedgingPolicy{MaxAttempts: 2}
	case "both":
		out.Retry, out.Hedging = &retry, &rpc.HedgingPolicy{MaxAttempts: 2}
	case "hedging of one attempt":
		out.Hedging = &rpc.HedgingPolicy{MaxAttempts: 1}
	case "retry without codes":
		out.Retry, retry.RetryableStatusCodes = &retry, nil
	default:
		out.Retry = &retry
	}
	return out, nil
}

// A resolver's selector decides on each call: the context that pickers get, the timeout, the retry or hedging
// policy, errors; and its Ended is called at the end. A call for which it returns an invalid policy fails.
func TestConfigSelector(t *testing.T) {
	balancer.Register(base.NewBalancerBuilder("by_cluster_test", byCluster{}, base.Config{}))
	var tries atomic.Int64
	attempts := make(chan struct{})
	svc := &testService{unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		if at, ok := ctx.Deadline(); !ok || time.Until(at) > 5*time.Second { // the test's own is 20 s
			return nil, status.Error(codes.Internal, "the deadline is not the selector's")
		}
		if in.FillOauthScope { // answers when two attempts have come
			select {
			case attempts <- struct{}{}:
			case <-attempts:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		if in.FillUsername && tries.Add(1) == 1 {
			return nil, status.Error(codes.Aborted, "again")
		}
		return &pb.SimpleResponse{}, nil
	}}
	one, two := startBackend(t), startBackend(t)
	_, three := startTarn(t, svc)
	sel := &routes{}
	state := stateOf(one, two)
	state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: three}}})
	state.Addresses = append(state.Addresses, resolver.Address{Addr: three})
	r := manual.NewBuilderWithScheme("names")
	r.InitialState(rpc.SetConfigSelector(state, sel))
	cc := dialNames(t, r, `{"by_cluster_test":{}}`)
	c := pb.NewTestServiceClient(cc)
	to := func(addr string) context.Context { return metadata.AppendToOutgoingContext(ctxFor(t), "to", addr) }
	for range 5 {
		if _, err := c.UnaryCall(to(two.addr), &pb.SimpleRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	if n, m := one.hits.Load(), two.hits.Load(); n != 0 || m != 5 {
		t.Errorf("%d calls at the other cluster and %d of 5 at the one that was selected", n, m)
	}
	if _, err := c.UnaryCall(to(three), &pb.SimpleRequest{FillUsername: true}); err != nil || tries.Load() != 2 {
		t.Errorf("after %d tries: %v", tries.Load(), err)
	}
	with := func(policy string) context.Context {
		return metadata.AppendToOutgoingContext(to(three), "policy", policy)
	}
	if _, err := c.UnaryCall(with("hedging"), &pb.SimpleRequest{FillOauthScope: true}); err != nil {
		t.Errorf("a hedged call: %v", err)
	}
	for _, bad := range []string{"both", "hedging of one attempt", "retry without codes"} {
		_, err := c.UnaryCall(with(bad), &pb.SimpleRequest{})
		if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "config selector") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	s, err := c.FullDuplexCall(to(three))
	if err != nil {
		t.Fatal(err)
	}
	if n := sel.live.Load(); n != 1 {
		t.Errorf("%d calls live, want the stream", n)
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); err == nil {
		t.Error("the stream does not end")
	}
	_, err = c.EmptyCall(ctxFor(t), &pb.Empty{})
	wantCode(t, err, codes.PermissionDenied)
	_, err = c.UnaryCall(ctxFor(t), &pb.SimpleRequest{})
	wantCode(t, err, codes.Unavailable)
	_, err = c.UnaryCall(to("illegal"), &pb.SimpleRequest{})
	wantCode(t, err, codes.Internal)
	if n := sel.live.Load(); n != 0 {
		t.Errorf("%d calls have not ended", n)
	}
	r.UpdateState(state) // without a selector
	_, err = c.EmptyCall(context.WithValue(ctxFor(t), clusterKey{}, one.addr), &pb.Empty{})
	wantCode(t, err, codes.OK)
}
