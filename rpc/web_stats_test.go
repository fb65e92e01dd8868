package rpc_test

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/internal/testcert"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// statsCarriers serve and connect with statistics handlers on both sides.
var statsCarriers = []struct {
	name  string
	one   bool // HTTP/1.1, without gRPC
	start func(t *testing.T, svc pb.TestServiceServer, log stats.Handler, opts ...rpc.DialOption) *rpc.ClientConn
}{
	{"Serve", true, func(t *testing.T, svc pb.TestServiceServer, log stats.Handler, opts ...rpc.DialOption) *rpc.ClientConn {
		_, addr := startTarn(t, svc, rpc.StatsHandler(log))
		return dialTarn(t, addr, opts...)
	}},
	{"Serve over h2c", false, func(t *testing.T, svc pb.TestServiceServer, log stats.Handler, opts ...rpc.DialOption) *rpc.ClientConn {
		_, addr := startTarn(t, svc, rpc.StatsHandler(log))
		rt := &h2http.Transport{Config: h2http.Config{Pool: tarntest.NewPool(t)}, DisableCompression: true}
		t.Cleanup(rt.CloseIdleConnections)
		return dialBy(t, addr, rt, opts...)
	}},
	{"Serve by a silent RoundTripper", true, func(t *testing.T, svc pb.TestServiceServer, log stats.Handler, opts ...rpc.DialOption) *rpc.ClientConn {
		_, addr := startTarn(t, svc, rpc.StatsHandler(log))
		rt := &http.Transport{DisableCompression: true}
		t.Cleanup(rt.CloseIdleConnections)
		return dialBy(t, addr, silent{rt}, opts...)
	}},
	{"ServeHTTP", false, func(t *testing.T, svc pb.TestServiceServer, log stats.Handler, opts ...rpc.DialOption) *rpc.ClientConn {
		cert, roots := testcert.New(t)
		s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.StatsHandler(log))
		pb.RegisterTestServiceServer(s, svc)
		h := httptest.NewUnstartedServer(s)
		h.EnableHTTP2 = true
		h.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
		h.StartTLS()
		t.Cleanup(h.Close)
		creds := credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: testcert.Name, NextProtos: []string{"h2", "http/1.1"}})
		return dialTarn(t, h.Listener.Addr().String(), append(opts, rpc.WithTransportCredentials(creds))...)
	}},
}

func dialBy(t *testing.T, addr string, rt http.RoundTripper, opts ...rpc.DialOption) *rpc.ClientConn {
	t.Helper()
	cc, err := rpc.NewClient("http://"+addr, append(opts, rpc.WithPool(tarntest.NewPool(t)), rpc.WithRoundTripper(rt))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return cc
}

// silent does not report its connections.
type silent struct{ rt http.RoundTripper }

func (s silent) RoundTrip(r *http.Request) (*http.Response, error) {
	return s.rt.RoundTrip(r.WithContext(withoutValues{r.Context()}))
}

// withoutValues is a context without its values.
type withoutValues struct{ context.Context }

func (withoutValues) Value(any) any { return nil }

// TestStatsHavePeers: in each protocol the contexts of a server's statistics have the client as their peer, and those of a client
// the server from OutHeader on, as otelgrpc expects. A peer of the caller's own context is never taken for it; a client whose
// RoundTripper reports no connections has none.
func TestStatsHavePeers(t *testing.T) {
	for _, p := range []rpc.Protocol{rpc.GRPC, rpc.GRPCWeb, rpc.Connect} {
		for _, by := range statsCarriers {
			if p == rpc.GRPC && strings.HasPrefix(by.name, "Serve ") { // has no RoundTripper
				continue
			}
			t.Run(p.String()+"/"+by.name, func(t *testing.T) {
				server, client := newEventLog(), newEventLog()
				opts := []rpc.DialOption{rpc.WithStatsHandler(client)}
				if p != rpc.GRPC {
					opts = append(opts, rpc.WithProtocol(p))
				}
				c := pb.NewTestServiceClient(by.start(t, &statsService{}, server, opts...))
				of := " of a peer"
				if strings.HasSuffix(by.name, "silent RoundTripper") {
					of = ""
				}
				for _, call := range statsCalls {
					ctx := peer.NewContext(ctxFor(t), &peer.Peer{})
					if by.one && p != rpc.GRPC && strings.HasPrefix(call.name, "duplex") {
						continue // needs HTTP/2
					}
					if err := call.do(ctx, c); status.Code(err) == codes.Unavailable {
						t.Fatal(err)
					}
					for i, e := range server.take() {
						if !strings.Contains(e, " of a peer") {
							t.Errorf("%s: the server's event %d: %s", call.name, i, e)
						}
					}
					events := client.take()
					header := slices.IndexFunc(events, func(e string) bool { return strings.HasPrefix(e, "OutHeader") })
					payload := slices.IndexFunc(events, func(e string) bool { return strings.HasPrefix(e, "OutPayload") })
					if header < 0 || payload >= 0 && payload < header {
						t.Errorf("%s: the client's events are %q", call.name, events)
						continue
					}
					for i, e := range events[header:] {
						if name, _, _ := strings.Cut(e, " "); !strings.HasPrefix(e, name+of) || of == "" && strings.Contains(e, "peer") {
							t.Errorf("%s: the client's event %d: %s", call.name, i, e)
						}
					}
				}
			})
		}
	}
}
