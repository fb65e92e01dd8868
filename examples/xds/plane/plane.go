// Package plane is an xDS control plane in the program, of go-control-plane, for an example and for tests. It serves over loopback, without TLS.
package plane

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"sync"

	clusterpb "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointpb "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerpb "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routepb "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerpb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmpb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discoverypb "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Node is the id of the clients that the control plane knows.
const Node = "node"

// Plane is a control plane.
type Plane struct {
	addr  string
	cache cache.SnapshotCache
	rpc   *rpc.Server
	stop  context.CancelFunc
	over  chan error

	mu      sync.Mutex
	version int
}

// Option is an option of [Start].
type Option func(*options)

type options struct {
	callbacks server.Callbacks
	services  []func(grpc.ServiceRegistrar)
}

// Watch has f called with each request of a client, in the order of its stream; the server answers when it has returned. A request with an
// ErrorDetail is a NACK.
func Watch(f func(*discoverypb.DiscoveryRequest)) Option {
	return func(o *options) {
		o.callbacks = server.CallbackFuncs{StreamRequestFunc: func(_ int64, r *discoverypb.DiscoveryRequest) error {
			f(r)
			return nil
		}}
	}
}

// Service adds a service, which register registers, to the control plane's server.
func Service(register func(grpc.ServiceRegistrar)) Option {
	return func(o *options) { o.services = append(o.services, register) }
}

// Start starts a control plane without resources.
func Start(opts ...Option) (*Plane, error) {
	var o options
	for _, set := range opts {
		set(&o)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	p := &Plane{addr: lis.Addr().String(), stop: stop, over: make(chan error, 1), rpc: rpc.NewServer(),
		cache: cache.NewSnapshotCache(false, cache.IDHash{}, nil)}
	discoverypb.RegisterAggregatedDiscoveryServiceServer(p.rpc, server.NewServer(ctx, p.cache, o.callbacks))
	for _, register := range o.services {
		register(p.rpc)
	}
	go func() { p.over <- p.rpc.Serve(lis) }()
	return p, nil
}

// Close stops the control plane.
func (p *Plane) Close() error {
	p.stop()
	p.rpc.Stop()
	return <-p.over
}

// Bootstrap is the text with which clients find the control plane.
func (p *Plane) Bootstrap() []byte {
	text, err := json.Marshal(map[string]any{
		"xds_servers": []any{map[string]any{"server_uri": p.addr,
			"channel_creds": []any{map[string]any{"type": "insecure"}}, "server_features": []string{"xds_v3"}}},
		"node": map[string]any{"id": Node},
	})
	if err != nil {
		panic(err) // of maps and strings
	}
	return text
}

// Set replaces all resources: listeners with their routes, clusters, endpoints.
func (p *Plane) Set(resources ...proto.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.version++
	byType := map[resource.Type][]types.Resource{resource.ListenerType: nil, resource.ClusterType: nil, resource.EndpointType: nil}
	for _, r := range resources {
		switch r.(type) {
		case *listenerpb.Listener:
			byType[resource.ListenerType] = append(byType[resource.ListenerType], r)
		case *clusterpb.Cluster:
			byType[resource.ClusterType] = append(byType[resource.ClusterType], r)
		case *endpointpb.ClusterLoadAssignment:
			byType[resource.EndpointType] = append(byType[resource.EndpointType], r)
		default:
			return fmt.Errorf("plane: %T is no listener, cluster or endpoints", r)
		}
	}
	s, err := cache.NewSnapshot(strconv.Itoa(p.version), byType)
	if err != nil {
		return err
	}
	return p.cache.SetSnapshot(context.Background(), Node, s)
}

// Listener is the service that xds:///name finds, with its routes and, before the router, filters.
func Listener(name string, routes []*routepb.Route, filters ...*hcmpb.HttpFilter) *listenerpb.Listener {
	filters = append(filters, Filter("router", &routerpb.Router{}))
	return &listenerpb.Listener{Name: name, ApiListener: &listenerpb.ApiListener{ApiListener: Any(&hcmpb.HttpConnectionManager{
		RouteSpecifier: &hcmpb.HttpConnectionManager_RouteConfig{RouteConfig: &routepb.RouteConfiguration{
			Name: name, VirtualHosts: []*routepb.VirtualHost{{Name: name, Domains: []string{"*"}, Routes: routes}}}},
		HttpFilters: filters,
	})}}
}

// Filter is an HTTP filter.
func Filter(name string, config proto.Message) *hcmpb.HttpFilter {
	return &hcmpb.HttpFilter{Name: name, ConfigType: &hcmpb.HttpFilter_TypedConfig{TypedConfig: Any(config)}}
}

// RouteTo sends calls whose path begins with prefix to a cluster.
func RouteTo(prefix, cluster string) *routepb.Route {
	return &routepb.Route{
		Match:  &routepb.RouteMatch{PathSpecifier: &routepb.RouteMatch_Prefix{Prefix: prefix}},
		Action: &routepb.Route_Route{Route: &routepb.RouteAction{ClusterSpecifier: &routepb.RouteAction_Cluster{Cluster: cluster}}},
	}
}

// Cluster is a cluster whose endpoints have its name.
func Cluster(name string) *clusterpb.Cluster {
	return &clusterpb.Cluster{Name: name, ClusterDiscoveryType: &clusterpb.Cluster_Type{Type: clusterpb.Cluster_EDS},
		EdsClusterConfig: &clusterpb.Cluster_EdsClusterConfig{EdsConfig: &corepb.ConfigSource{
			ConfigSourceSpecifier: &corepb.ConfigSource_Ads{Ads: &corepb.AggregatedConfigSource{}}}}}
}

// Endpoints are those of a cluster: a list of addresses for each priority, the first being the highest.
func Endpoints(cluster string, priorities ...[]string) *endpointpb.ClusterLoadAssignment {
	e := &endpointpb.ClusterLoadAssignment{ClusterName: cluster}
	for i, addrs := range priorities {
		l := &endpointpb.LocalityLbEndpoints{Locality: &corepb.Locality{Region: "region", Zone: "zone", SubZone: strconv.Itoa(i)},
			LoadBalancingWeight: wrapperspb.UInt32(1), Priority: uint32(i)}
		for _, addr := range addrs {
			host, port, err := net.SplitHostPort(addr)
			if err != nil {
				panic(err)
			}
			n, err := strconv.ParseUint(port, 10, 16)
			if err != nil {
				panic(err)
			}
			l.LbEndpoints = append(l.LbEndpoints, &endpointpb.LbEndpoint{HostIdentifier: &endpointpb.LbEndpoint_Endpoint{Endpoint: &endpointpb.Endpoint{
				Address: &corepb.Address{Address: &corepb.Address_SocketAddress{SocketAddress: &corepb.SocketAddress{
					Address: host, PortSpecifier: &corepb.SocketAddress_PortValue{PortValue: uint32(n)}}}}}}})
		}
		e.Endpoints = append(e.Endpoints, l)
	}
	return e
}

// Any packs a message.
func Any(m proto.Message) *anypb.Any {
	a, err := anypb.New(m)
	if err != nil {
		panic(err) // of a message that cannot be encoded
	}
	return a
}
