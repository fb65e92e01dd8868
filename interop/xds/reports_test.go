package xds_test

import (
	"io"
	"maps"
	"sync"
	"testing"
	"time"

	clusterpb "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointpb "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routepb "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	weightedpb "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/client_side_weighted_round_robin/v3"
	localitypb "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/wrr_locality/v3"
	loadpb "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/tarn-go/tarn/examples/xds/plane"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	grpcotel "google.golang.org/grpc/stats/opentelemetry"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// policies is a list of one load-balancing policy.
func policies(m proto.Message) *clusterpb.LoadBalancingPolicy {
	return &clusterpb.LoadBalancingPolicy{Policies: []*clusterpb.LoadBalancingPolicy_Policy{
		{TypedExtensionConfig: &corepb.TypedExtensionConfig{Name: "policy", TypedConfig: plane.Any(m)}}}}
}

// Weighted round robin by the loads (ORCA) that servers report in calls: of two servers, one at three times the load of the other.
func weightsOfCalls(t *testing.T) { weights(t, false) }

// The same by the loads that servers report out of band.
func weightsOutOfBand(t *testing.T) { weights(t, true) }

func weights(t *testing.T, outOfBand bool) {
	bs := startBackendsWith(t, 2, backendOptions{loads: []float64{0.75, 0.25}})
	cluster := plane.Cluster("a")
	cluster.LoadBalancingPolicy = policies(&localitypb.WrrLocality{EndpointPickingPolicy: policies(&weightedpb.ClientSideWeightedRoundRobin{
		EnableOobLoadReport: wrapperspb.Bool(outOfBand), OobReportingPeriod: durationpb.New(50 * time.Millisecond),
		BlackoutPeriod: durationpb.New(time.Millisecond), WeightUpdatePeriod: durationpb.New(100 * time.Millisecond)})})
	p := startPlane(t, plane.Listener("svc", []*routepb.Route{plane.RouteTo("/", "a")}), cluster, plane.Endpoints("a", []string{bs[0].addr, bs[1].addr}))
	each(t, func(t *testing.T, dial dial) {
		c := dial(t, p.Bootstrap())
		eventually(t, "three quarters of the calls at the server with less load", func() bool {
			got := map[string]int{}
			for range 100 {
				name, err := ask(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				got[name]++
			}
			return got[bs[1].name] >= 70 && got[bs[1].name] <= 80
		})
	})
}

// loads is a service of load reports (LRS), and what clients have reported.
type loads struct {
	loadpb.UnimplementedLoadReportingServiceServer

	mu sync.Mutex
	of map[string]*counts // clusters
}

type counts struct{ begun, succeeded, failed, dropped uint64 }

func (l *loads) StreamLoadStats(s loadpb.LoadReportingService_StreamLoadStatsServer) error {
	for first := true; ; first = false {
		r, err := s.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if first {
			if err := s.Send(&loadpb.LoadStatsResponse{SendAllClusters: true, LoadReportingInterval: durationpb.New(20 * time.Millisecond)}); err != nil {
				return err
			}
		}
		l.add(r.GetClusterStats())
	}
}

func (l *loads) add(stats []*endpointpb.ClusterStats) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range stats {
		c := l.of[s.GetClusterName()]
		if c == nil {
			c = new(counts)
			l.of[s.GetClusterName()] = c
		}
		c.dropped += s.GetTotalDroppedRequests()
		for _, u := range s.GetUpstreamLocalityStats() {
			c.begun += u.GetTotalIssuedRequests()
			c.succeeded += u.GetTotalSuccessfulRequests()
			c.failed += u.GetTotalErrorRequests()
		}
	}
}

func (l *loads) get(cluster string) counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.of[cluster]; c != nil {
		return *c
	}
	return counts{}
}

// Load reports: of calls that succeed, fail and are dropped.
func loadReports(t *testing.T) {
	bs := startBackends(t, 1)
	self := &corepb.ConfigSource{ConfigSourceSpecifier: &corepb.ConfigSource_Self{Self: &corepb.SelfConfigSource{}}}
	cluster, dropping := plane.Cluster("a"), plane.Cluster("b")
	cluster.LrsServer, dropping.LrsServer = self, self
	endpoints := plane.Endpoints("b", []string{bs[0].addr})
	endpoints.Policy = &endpointpb.ClusterLoadAssignment_Policy{DropOverloads: []*endpointpb.ClusterLoadAssignment_Policy_DropOverload{
		{Category: "all", DropPercentage: &typepb.FractionalPercent{Numerator: 100}}}}
	dropped := plane.RouteTo("/", "b")
	dropped.Match.Headers = []*routepb.HeaderMatcher{{Name: "drop", HeaderMatchSpecifier: &routepb.HeaderMatcher_PresentMatch{PresentMatch: true}}}
	each(t, func(t *testing.T, dial dial) {
		l := &loads{of: map[string]*counts{}}
		p := startPlaneWith(t, []plane.Option{plane.Service(func(s grpc.ServiceRegistrar) { loadpb.RegisterLoadReportingServiceServer(s, l) })},
			plane.Listener("svc", []*routepb.Route{dropped, plane.RouteTo("/", "a")}),
			cluster, plane.Endpoints("a", []string{bs[0].addr}), dropping, endpoints)
		c := dial(t, p.Bootstrap())
		for range 20 {
			wantFrom(t, t.Context(), c, bs[0])
		}
		bs[0].failing(3)
		for range 3 {
			if _, err := ask(t.Context(), c); err == nil {
				t.Error("a call has not failed")
			}
		}
		for range 5 {
			if _, err := ask(metadata.AppendToOutgoingContext(t.Context(), "drop", "1"), c); err == nil {
				t.Error("a call has not been dropped")
			}
		}
		eventually(t, "the reports of all calls", func() bool {
			a, b := l.get("a"), l.get("b")
			return a.begun >= 23 && a.succeeded+a.failed >= 23 && b.dropped >= 5
		})
		if a, b := l.get("a"), l.get("b"); a != (counts{23, 20, 3, 0}) || b != (counts{dropped: 5}) {
			t.Errorf("%+v, %+v are reported", a, b)
		}
	})
}

// The labels of a cluster and a locality (gRFC A89), in the metrics of attempts.
func telemetryLabels(t *testing.T) {
	bs := startBackends(t, 1)
	cluster := plane.Cluster("a")
	cluster.Metadata = &corepb.Metadata{FilterMetadata: map[string]*structpb.Struct{"com.google.csm.telemetry_labels": {Fields: map[string]*structpb.Value{
		"service_name": structpb.NewStringValue("service"), "service_namespace": structpb.NewStringValue("space")}}}}
	p := startPlane(t, plane.Listener("svc", []*routepb.Route{plane.RouteTo("/", "a")}), cluster, plane.Endpoints("a", []string{bs[0].addr}))
	want := map[string]string{"grpc.method": "grpc.testing.TestService/UnaryCall", "grpc.target": "xds:///svc", "grpc.status": "OK",
		"grpc.lb.locality": `{region="region", zone="zone", sub_zone="0"}`, "grpc.lb.backend_service": "a",
		"csm.service_name": "service", "csm.service_namespace_name": "space"}
	each(t, func(t *testing.T, dial dial) {
		reader := sdkmetric.NewManualReader()
		c := dial(t, p.Bootstrap(), client{metrics: grpcotel.MetricsOptions{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
			OptionalLabels: []string{"grpc.lb.locality", "grpc.lb.backend_service", "csm.service_name", "csm.service_namespace_name"}}})
		wantFrom(t, t.Context(), c, bs[0])
		var all metricdata.ResourceMetrics
		if err := reader.Collect(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		found := false
		for _, scope := range all.ScopeMetrics {
			for _, m := range scope.Metrics {
				h, ok := m.Data.(metricdata.Histogram[float64])
				if !ok || m.Name != "grpc.client.attempt.duration" {
					continue
				}
				for _, point := range h.DataPoints {
					got := map[string]string{}
					for _, kv := range point.Attributes.ToSlice() {
						got[string(kv.Key)] = kv.Value.AsString()
					}
					if found = true; !maps.Equal(got, want) {
						t.Errorf("an attempt has %v, want %v", got, want)
					}
				}
			}
		}
		if !found {
			t.Error("no attempt is recorded")
		}
	})
}
