package xds_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clusterpb "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointpb "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routepb "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	aggregatepb "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/aggregate/v3"
	commonfaultpb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/fault/v3"
	extprocpb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	faultpb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	procpb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	matcherpb "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/tarn-go/tarn/examples/xds/plane"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// features are what grpc-go's xDS has for clients. Each is run with both clients, which have to do the same.
var features = []struct {
	name string
	run  func(*testing.T)
}{
	{"routes by path and header", routes},
	{"weighted clusters", weightedClusters},
	{"timeout and retry policy of a route", timeoutAndRetry},
	{"HTTP filter: fault injection", faultInjection},
	{"HTTP filter: external processing", externalProcessing},
	{"ring hash by header", ringHash},
	{"weighted round robin by loads of calls", weightsOfCalls},
	{"weighted round robin by loads out of band", weightsOutOfBand},
	{"priorities", priorities},
	{"aggregate clusters", aggregateClusters},
	{"outlier detection", outlierDetection},
	{"circuit breaking", circuitBreaker},
	{"drops", drops},
	{"load reports", loadReports},
	{"labels of telemetry", telemetryLabels},
	{"mTLS by certificate providers", mutualTLS},
	{"HTTP CONNECT", httpConnect},
	{"proxy of the environment", environmentsProxy},
	{"a listener goes and comes back", listenerGoes},
	{"idle and back", idleAndBack},
	{"weights and endpoints change under load", changesUnderLoad},
	{"an invalid update is refused", invalidUpdate},
	{"an answered stream holds no cluster", answeredStream},
	{"CSDS", clientStatus},
}

func TestFeatures(t *testing.T) {
	for _, f := range features {
		t.Run(f.name, f.run)
	}
}

// Routes by path and header; calls without a route fail.
func routes(t *testing.T) {
	bs := startBackends(t, 2)
	empty := plane.RouteTo("/grpc.testing.TestService/EmptyCall", "a")
	marked := plane.RouteTo("/grpc.testing.TestService/", "b")
	marked.Match.Headers = []*routepb.HeaderMatcher{{Name: "to", HeaderMatchSpecifier: &routepb.HeaderMatcher_StringMatch{
		StringMatch: &matcherpb.StringMatcher{MatchPattern: &matcherpb.StringMatcher_Exact{Exact: "b"}},
	}}}
	unary := plane.RouteTo("/grpc.testing.TestService/UnaryCall", "a")
	p := startPlane(t, plane.Listener("svc", []*routepb.Route{empty, marked, unary}),
		plane.Cluster("a"), plane.Endpoints("a", []string{bs[0].addr}), plane.Cluster("b"), plane.Endpoints("b", []string{bs[1].addr}))
	each(t, func(t *testing.T, dial dial) {
		c := dial(t, p.Bootstrap())
		wantFrom(t, t.Context(), c, bs[0])
		to := metadata.AppendToOutgoingContext(t.Context(), "to", "b")
		wantFrom(t, to, c, bs[1])
		before := bs[0].hits.Load()
		if _, err := c.EmptyCall(to, &pb.Empty{}); err != nil || bs[0].hits.Load() != before+1 {
			t.Errorf("EmptyCall: %v", err)
		}
		s, err := c.FullDuplexCall(to)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(&pb.StreamingOutputCallRequest{}); err != nil {
			t.Fatal(err)
		}
		if r, err := s.Recv(); err != nil || string(r.GetPayload().GetBody()) != bs[1].name {
			t.Errorf("%v, %v", r, err)
		}
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != io.EOF {
			t.Error(err)
		}
		s, err = c.FullDuplexCall(t.Context())
		if err == nil {
			_, err = s.Recv()
		}
		if wantCode(t, err, codes.Unavailable); !strings.Contains(err.Error(), "no matched route was found") || !strings.Contains(err.Error(), plane.Node) {
			t.Errorf("without a route: %v", err)
		}
	})
}

// A route with weights.
func weightedClusters(t *testing.T) {
	bs := startBackends(t, 2)
	route := plane.RouteTo("/", "")
	route.GetRoute().ClusterSpecifier = &routepb.RouteAction_WeightedClusters{WeightedClusters: &routepb.WeightedCluster{Clusters: []*routepb.WeightedCluster_ClusterWeight{
		{Name: "a", Weight: wrapperspb.UInt32(30)}, {Name: "b", Weight: wrapperspb.UInt32(10)}}}}
	p := startPlane(t, plane.Listener("svc", []*routepb.Route{route}),
		plane.Cluster("a"), plane.Endpoints("a", []string{bs[0].addr}), plane.Cluster("b"), plane.Endpoints("b", []string{bs[1].addr}))
	each(t, func(t *testing.T, dial dial) {
		c := dial(t, p.Bootstrap())
		got := map[string]int{}
		for range 400 {
			name, err := ask(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			got[name]++
		}
		if n := got["0"]; n < 250 || n > 350 { // five standard deviations
			t.Errorf("%d of 400 calls at the cluster with three quarters of the weight", n)
		}
	})
}

// A route's timeout and retry policy.
func timeoutAndRetry(t *testing.T) {
	bs := startBackends(t, 2)
	short := plane.RouteTo("/grpc.testing.TestService/EmptyCall", "a")
	short.GetRoute().MaxStreamDuration = &routepb.RouteAction_MaxStreamDuration{MaxStreamDuration: durationpb.New(50 * time.Millisecond)}
	again := plane.RouteTo("/", "b")
	again.GetRoute().RetryPolicy = &routepb.RetryPolicy{RetryOn: "unavailable", NumRetries: wrapperspb.UInt32(3),
		RetryBackOff: &routepb.RetryPolicy_RetryBackOff{BaseInterval: durationpb.New(time.Millisecond), MaxInterval: durationpb.New(2 * time.Millisecond)}}
	p := startPlane(t, plane.Listener("svc", []*routepb.Route{short, again}),
		plane.Cluster("a"), plane.Endpoints("a", []string{bs[0].addr}), plane.Cluster("b"), plane.Endpoints("b", []string{bs[1].addr}))
	wait := func(ctx context.Context) error {
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	}
	bs[0].hook.Store(&wait)
	each(t, func(t *testing.T, dial dial) {
		c := dial(t, p.Bootstrap())
		_, err := c.EmptyCall(t.Context(), &pb.Empty{})
		wantCode(t, err, codes.DeadlineExceeded)
		before := bs[1].hits.Load()
		bs[1].failing(3)
		wantFrom(t, t.Context(), c, bs[1])
		if n := bs[1].hits.Load() - before; n != 4 {
			t.Errorf("%d attempts, want 4", n)
		}
		bs[1].failing(4)
		_, err = ask(t.Context(), c)
		wantCode(t, err, codes.Unavailable)
	})
}

// Fault injection: calls are aborted or delayed, unary ones and streams, by a filter whose settings are those of the route.
func faultInjection(t *testing.T) {
	bs := startBackends(t, 1)
	always := &typepb.FractionalPercent{Numerator: 100}
	abort := plane.RouteTo("/", "a")
	abort.Match.Headers = []*routepb.HeaderMatcher{{Name: "abort", HeaderMatchSpecifier: &routepb.HeaderMatcher_PresentMatch{PresentMatch: true}}}
	fault := &faultpb.HTTPFault{Abort: &faultpb.FaultAbort{Percentage: always, ErrorType: &faultpb.FaultAbort_GrpcStatus{GrpcStatus: uint32(codes.ResourceExhausted)}}}
	abort.TypedPerFilterConfig = map[string]*anypb.Any{"fault": plane.Any(fault)}
	delay := plane.RouteTo("/", "a")
	delay.TypedPerFilterConfig = map[string]*anypb.Any{"fault": plane.Any(&faultpb.HTTPFault{Delay: &commonfaultpb.FaultDelay{Percentage: always,
		FaultDelaySecifier: &commonfaultpb.FaultDelay_FixedDelay{FixedDelay: durationpb.New(30 * time.Millisecond)}}})}
	p := startPlane(t, plane.Listener("svc", []*routepb.Route{abort, delay}, plane.Filter("fault", &faultpb.HTTPFault{})),
		plane.Cluster("a"), plane.Endpoints("a", []string{bs[0].addr}))
	each(t, func(t *testing.T, dial dial) {
		c := dial(t, p.Bootstrap())
		before := bs[0].hits.Load()
		aborted := metadata.AppendToOutgoingContext(t.Context(), "abort", "1")
		_, err := ask(aborted, c)
		wantCode(t, err, codes.ResourceExhausted)
		s, err := c.FullDuplexCall(aborted)
		if err == nil {
			_, err = s.Recv()
		}
		if wantCode(t, err, codes.ResourceExhausted); bs[0].hits.Load() != before {
			t.Error("an aborted call has reached the server")
		}
		began := time.Now()
		wantFrom(t, t.Context(), c, bs[0])
		s, err = c.FullDuplexCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(&pb.StreamingOutputCallRequest{}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != nil {
			t.Error(err)
		}
		if err := s.CloseSend(); err != nil {
			t.Error(err)
		}
		if _, err := s.Recv(); err != io.EOF {
			t.Error(err)
		}
		if d := time.Since(began); d < 60*time.Millisecond { // a delay is never shorter
			t.Errorf("two calls were delayed by %v", d)
		}
	})
}

// processor is an external processor: it adds a field to the headers of request and response.
type processor struct {
	procpb.UnimplementedExternalProcessorServer
	seen atomic.Int64 // requests and responses
}

func (p *processor) Process(s procpb.ExternalProcessor_ProcessServer) error {
	changed := &procpb.HeadersResponse{Response: &procpb.CommonResponse{HeaderMutation: &procpb.HeaderMutation{SetHeaders: []*corepb.HeaderValueOption{
		{Header: &corepb.HeaderValue{Key: "processed", Value: "yes"}, AppendAction: corepb.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD}}}}}
	for {
		r, err := s.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		answer := &procpb.ProcessingResponse{}
		if r.GetRequestHeaders() != nil {
			answer.Response = &procpb.ProcessingResponse_RequestHeaders{RequestHeaders: changed}
		} else {
			answer.Response = &procpb.ProcessingResponse_ResponseHeaders{ResponseHeaders: changed}
		}
		p.seen.Add(1)
		if err := s.Send(answer); err != nil {
			return err
		}
	}
}

// External processing (ext_proc): a server changes the headers of requests and responses, of unary calls and streams.
func externalProcessing(t *testing.T) {
	if slices.Contains(versions, "v"+grpc.Version) {
		t.Skip("grpc-go has the filter since 1.85")
	}
	bs := startBackends(t, 2)
	own := new(processor)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	procpb.RegisterExternalProcessorServer(server, own)
	go server.Serve(lis)
	t.Cleanup(server.Stop)
	processed := func(ctx context.Context) error {
		if md, _ := metadata.FromIncomingContext(ctx); len(md.Get("processed")) != 1 {
			return status.Errorf(codes.InvalidArgument, "not processed: %v", md)
		}
		return nil
	}
	for _, b := range bs {
		b.hook.Store(&processed)
	}
	filter := &extprocpb.ExternalProcessor{
		GrpcService: &corepb.GrpcService{TargetSpecifier: &corepb.GrpcService_GoogleGrpc_{GoogleGrpc: &corepb.GrpcService_GoogleGrpc{TargetUri: lis.Addr().String(),
			ChannelCredentialsPlugin: []*anypb.Any{{TypeUrl: "type.googleapis.com/envoy.extensions.grpc_service.channel_credentials.insecure.v3.InsecureCredentials"}}}}},
		ProcessingMode: &extprocpb.ProcessingMode{RequestHeaderMode: extprocpb.ProcessingMode_SEND, ResponseHeaderMode: extprocpb.ProcessingMode_SEND},
	}
	p := startPlane(t, plane.Listener("svc", []*routepb.Route{plane.RouteTo("/", "a")}, plane.Filter("processor", filter)),
		plane.Cluster("a"), plane.Endpoints("a", []string{bs[0].addr, bs[1].addr}))
	var servers []map[string]any
	if err := json.Unmarshal(entryOf(t, p, "xds_servers"), &servers); err != nil {
		t.Fatal(err)
	}
	servers[0]["server_features"] = []string{"xds_v3", "trusted_xds_server"}
	bootstrap := bootstrapWith(t, p, "xds_servers", servers)
	each(t, func(t *testing.T, dial dial) {
		c := dial(t, bootstrap)
		before := own.seen.Load()
		for range 4 { // grpc.Header has what the server has sent, with either client
			if _, err := ask(t.Context(), c); err != nil {
				t.Error(err)
			}
		}
		s, err := c.FullDuplexCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := s.Send(&pb.StreamingOutputCallRequest{}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Recv(); err != nil {
				t.Fatal(err)
			}
		}
		if header, err := s.Header(); err != nil || len(header.Get("processed")) != 1 {
			t.Errorf("%v, %v", header, err)
		}
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != io.EOF {
			t.Error(err)
		}
		if n := own.seen.Load() - before; n != 10 {
			t.Errorf("the processor has seen %d headers, want 10", n)
		}
	})
}

// Ring hash: the calls with one value of a header go to one server.
func ringHash(t *testing.T) {
	bs := startBackends(t, 4)
	var addrs []string
	for _, b := range bs {
		addrs = append(addrs, b.addr)
	}
	route := plane.RouteTo("/", "a")
	route.GetRoute().HashPolicy = []*routepb.RouteAction_HashPolicy{{PolicySpecifier: &routepb.RouteAction_HashPolicy_Header_{
		Header: &routepb.RouteAction_HashPolicy_Header{HeaderName: "user"}}}}
	cluster := plane.Cluster("a")
	cluster.LbPolicy = clusterpb.Cluster_RING_HASH
	p := startPlane(t, plane.Listener("svc", []*routepb.Route{route}), cluster, plane.Endpoints("a", addrs))
	homes := map[string]string{} // of users: the same for both clients
	each(t, func(t *testing.T, dial dial) {
		c := dial(t, p.Bootstrap())
		for _, user := range strings.Fields("ann bob cid dan eve fay gus hal") {
			for range 5 {
				name, err := ask(metadata.AppendToOutgoingContext(t.Context(), "user", user), c)
				if err != nil {
					t.Fatal(err)
				}
				if homes[user] == "" {
					homes[user] = name
				}
				if homes[user] != name {
					t.Errorf("%s has been at %s and is at %s", user, homes[user], name)
				}
			}
		}
	})
}

// Priorities: the second is used while the first has no server.
func priorities(t *testing.T) {
	each(t, func(t *testing.T, dial dial) {
		bs := startBackends(t, 2)
		p := startPlane(t, plane.Listener("svc", []*routepb.Route{plane.RouteTo("/", "a")}),
			plane.Cluster("a"), plane.Endpoints("a", []string{bs[0].addr}, []string{bs[1].addr}))
		c := dial(t, p.Bootstrap())
		wantFrom(t, t.Context(), c, bs[0])
		bs[0].stop()
		eventually(t, "a call at the second priority", func() bool {
			name, err := ask(t.Context(), c)
			return err == nil && name == bs[1].name
		})
	})
}

// An aggregate cluster: its second cluster is used while the first has no endpoints.
func aggregateClusters(t *testing.T) {
	bs := startBackends(t, 2)
	all := plane.Cluster("all")
	all.EdsClusterConfig = nil
	all.ClusterDiscoveryType = &clusterpb.Cluster_ClusterType{ClusterType: &clusterpb.Cluster_CustomClusterType{Name: "envoy.clusters.aggregate",
		TypedConfig: plane.Any(&aggregatepb.ClusterConfig{Clusters: []string{"a", "b"}})}}
	each(t, func(t *testing.T, dial dial) {
		with := func(addrs ...[]string) []proto.Message {
			return []proto.Message{plane.Listener("svc", []*routepb.Route{plane.RouteTo("/", "all")}), all,
				plane.Cluster("a"), plane.Endpoints("a", addrs...), plane.Cluster("b"), plane.Endpoints("b", []string{bs[1].addr})}
		}
		p := startPlane(t, with([]string{bs[0].addr})...)
		c := dial(t, p.Bootstrap())
		wantFrom(t, t.Context(), c, bs[0])
		for _, step := range []struct {
			addrs []string
			at    *backend
		}{{nil, bs[1]}, {[]string{bs[0].addr}, bs[0]}} {
			set(t, p, with(step.addrs)...)
			eventually(t, "calls at cluster "+step.at.name, func() bool {
				name, err := ask(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				return name == step.at.name
			})
		}
	})
}

// Outlier detection: a server that fails gets no more calls.
func outlierDetection(t *testing.T) {
	bs := startBackends(t, 3)
	cluster := plane.Cluster("a")
	cluster.OutlierDetection = &clusterpb.OutlierDetection{Interval: durationpb.New(100 * time.Millisecond), BaseEjectionTime: durationpb.New(time.Minute),
		MaxEjectionPercent: wrapperspb.UInt32(50), FailurePercentageThreshold: wrapperspb.UInt32(50), EnforcingFailurePercentage: wrapperspb.UInt32(100),
		FailurePercentageMinimumHosts: wrapperspb.UInt32(1), FailurePercentageRequestVolume: wrapperspb.UInt32(1), EnforcingSuccessRate: wrapperspb.UInt32(0)}
	p := startPlane(t, plane.Listener("svc", []*routepb.Route{plane.RouteTo("/", "a")}), cluster,
		plane.Endpoints("a", []string{bs[0].addr, bs[1].addr, bs[2].addr}))
	fail := func(context.Context) error { return errBusy }
	bs[1].hook.Store(&fail)
	each(t, func(t *testing.T, dial dial) {
		c := dial(t, p.Bootstrap())
		eventually(t, "each server is used", func() bool {
			name, err := ask(t.Context(), c)
			return err != nil || name == ""
		})
		eventually(t, "the server that fails is ejected", func() bool {
			for range 20 {
				if _, err := ask(t.Context(), c); err != nil {
					return false
				}
			}
			return true
		})
	})
}

// Circuit breaking: of 20 calls at once, 5 may run; the others fail.
func circuitBreaker(t *testing.T) {
	bs := startBackends(t, 1)
	cluster := plane.Cluster("a")
	cluster.CircuitBreakers = &clusterpb.CircuitBreakers{Thresholds: []*clusterpb.CircuitBreakers_Thresholds{{MaxRequests: wrapperspb.UInt32(5)}}}
	p := startPlane(t, plane.Listener("svc", []*routepb.Route{plane.RouteTo("/", "a")}), cluster, plane.Endpoints("a", []string{bs[0].addr}))
	each(t, func(t *testing.T, dial dial) {
		bs[0].hook.Store(nil)
		c := dial(t, p.Bootstrap())
		eventually(t, "no call is left of the other client", func() bool {
			_, err := ask(t.Context(), c)
			return err == nil
		})
		goOn := make(chan struct{})
		hold := func(context.Context) error {
			<-goOn
			return nil
		}
		bs[0].hook.Store(&hold)
		var failed atomic.Int64
		var calls sync.WaitGroup
		for range 20 {
			calls.Go(func() {
				if _, err := ask(t.Context(), c); err != nil {
					if failed.Add(1) == 15 {
						close(goOn)
					}
				}
			})
		}
		if calls.Wait(); failed.Load() != 15 {
			t.Errorf("%d of 20 calls failed", failed.Load())
		}
	})
}

// Endpoints with a category of dropped calls.
func drops(t *testing.T) {
	bs := startBackends(t, 1)
	endpoints := plane.Endpoints("a", []string{bs[0].addr})
	endpoints.Policy = &endpointpb.ClusterLoadAssignment_Policy{DropOverloads: []*endpointpb.ClusterLoadAssignment_Policy_DropOverload{
		{Category: "all", DropPercentage: &typepb.FractionalPercent{Numerator: 100}}}}
	p := startPlane(t, plane.Listener("svc", []*routepb.Route{plane.RouteTo("/", "a")}), plane.Cluster("a"), endpoints)
	each(t, func(t *testing.T, dial dial) {
		_, err := ask(t.Context(), dial(t, p.Bootstrap()))
		if wantCode(t, err, codes.Unavailable); !strings.Contains(status.Convert(err).Message(), "drop") {
			t.Error(err)
		}
	})
}

// The listener goes and comes back.
func listenerGoes(t *testing.T) {
	bs := startBackends(t, 1)
	each(t, func(t *testing.T, dial dial) {
		p := startPlane(t)
		there := func() {
			set(t, p, plane.Listener("svc", []*routepb.Route{plane.RouteTo("/", "a")}), plane.Cluster("a"), plane.Endpoints("a", []string{bs[0].addr}))
		}
		there()
		c := dial(t, p.Bootstrap())
		wantFrom(t, t.Context(), c, bs[0])
		set(t, p)
		eventually(t, "calls fail", func() bool {
			_, err := ask(t.Context(), c)
			return status.Code(err) == codes.Unavailable
		})
		there()
		eventually(t, "calls succeed again", func() bool {
			_, err := ask(t.Context(), c)
			return err == nil
		})
	})
}
