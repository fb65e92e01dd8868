package xds_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routepb "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	proxypb "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/http_11_proxy/v3"
	tlspb "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"github.com/tarn-go/tarn/examples/xds/plane"
	"github.com/tarn-go/tarn/internal/testcert"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	xdscreds "google.golang.org/grpc/credentials/xds"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// entryOf is an entry of p's bootstrap.
func entryOf(t *testing.T, p *plane.Plane, key string) json.RawMessage {
	var of map[string]json.RawMessage
	if err := json.Unmarshal(p.Bootstrap(), &of); err != nil {
		t.Fatal(err)
	}
	return of[key]
}

// bootstrapWith is p's bootstrap with another entry.
func bootstrapWith(t *testing.T, p *plane.Plane, key string, value any) []byte {
	var of map[string]any
	if err := json.Unmarshal(p.Bootstrap(), &of); err != nil {
		t.Fatal(err)
	}
	of[key] = value
	text, err := json.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func transportSocket(name string, m proto.Message) *corepb.TransportSocket {
	return &corepb.TransportSocket{Name: "envoy.transport_sockets." + name, ConfigType: &corepb.TransportSocket_TypedConfig{TypedConfig: plane.Any(m)}}
}

// TLS with certificates on both sides: a cluster names the provider of its certificates, which the bootstrap has; another cluster has none.
func mutualTLS(t *testing.T) {
	certFile, keyFile, roots := testcert.Files(t)
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	bs := startBackendsWith(t, 2, backendOptions{creds: credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots})})
	verified := func(ctx context.Context) error {
		p, _ := peer.FromContext(ctx)
		if info, ok := p.AuthInfo.(credentials.TLSInfo); !ok || len(info.State.VerifiedChains) == 0 {
			return status.Error(codes.Unauthenticated, "no certificate")
		}
		return nil
	}
	for _, b := range bs {
		b.hook.Store(&verified)
	}
	plain := startBackends(t, 1)
	cluster := plane.Cluster("a")
	const provider = "files"
	cluster.TransportSocket = transportSocket("tls", &tlspb.UpstreamTlsContext{CommonTlsContext: &tlspb.CommonTlsContext{
		TlsCertificateProviderInstance: &tlspb.CertificateProviderPluginInstance{InstanceName: provider},
		ValidationContextType: &tlspb.CommonTlsContext_ValidationContext{ValidationContext: &tlspb.CertificateValidationContext{
			CaCertificateProviderInstance: &tlspb.CertificateProviderPluginInstance{InstanceName: provider}}},
	}})
	p := startPlane(t, plane.Listener("svc", []*routepb.Route{plane.RouteTo("/grpc.testing.TestService/UnaryCall", "a"), plane.RouteTo("/", "plain")}),
		cluster, plane.Endpoints("a", []string{bs[0].addr, bs[1].addr}), plane.Cluster("plain"), plane.Endpoints("plain", []string{plain[0].addr}))
	bootstrap := bootstrapWith(t, p, "certificate_providers", map[string]any{provider: map[string]any{"plugin_name": "file_watcher",
		"config": map[string]any{"certificate_file": certFile, "private_key_file": keyFile, "ca_certificate_file": certFile}}})
	each(t, func(t *testing.T, dial dial) {
		creds, err := xdscreds.NewClientCredentials(xdscreds.ClientOptions{FallbackCreds: insecure.NewCredentials()})
		if err != nil {
			t.Fatal(err)
		}
		c := dial(t, bootstrap, client{creds: creds})
		seen := map[string]bool{}
		eventually(t, "calls at both servers", func() bool {
			name, err := ask(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			seen[name] = true
			return len(seen) == 2
		})
		before := plain[0].hits.Load()
		if _, err := c.EmptyCall(t.Context(), nil); err != nil || plain[0].hits.Load() != before+1 {
			t.Errorf("without TLS: %v", err)
		}
	})
}

// An endpoint that is reached through an HTTP CONNECT proxy (gRFC A86).
func httpConnect(t *testing.T) {
	bs := startBackends(t, 1)
	var asked atomic.Pointer[string]
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Store(&r.Host); r.Method != http.MethodConnect {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		server, err := net.Dial("tcp", r.Host)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer server.Close()
		nc, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer nc.Close()
		if _, err := nc.Write([]byte("HTTP/1.1 200 OK\r\n\r\n")); err != nil {
			return
		}
		go func() {
			io.Copy(server, buffered)
			server.(*net.TCPConn).CloseWrite()
		}()
		io.Copy(nc, server)
	}))
	t.Cleanup(proxy.Close)
	host, port, err := net.SplitHostPort(proxy.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	cluster := plane.Cluster("a")
	cluster.TransportSocket = transportSocket("http_11_proxy", &proxypb.Http11ProxyUpstreamTransport{})
	endpoints := plane.Endpoints("a", []string{bs[0].addr})
	endpoints.Endpoints[0].LbEndpoints[0].Metadata = &corepb.Metadata{TypedFilterMetadata: map[string]*anypb.Any{
		"envoy.http11_proxy_transport_socket.proxy_address": plane.Any(&corepb.Address{Address: &corepb.Address_SocketAddress{SocketAddress: &corepb.SocketAddress{
			Address: host, PortSpecifier: &corepb.SocketAddress_PortValue{PortValue: uint32(n)}}}})}}
	p := startPlane(t, plane.Listener("svc", []*routepb.Route{plane.RouteTo("/", "a")}), cluster, endpoints)
	each(t, func(t *testing.T, dial dial) {
		asked.Store(nil)
		wantFrom(t, t.Context(), dial(t, p.Bootstrap()), bs[0])
		if to := asked.Load(); to == nil || *to != bs[0].addr {
			t.Errorf("the proxy was asked for %v", to)
		}
	})
}
