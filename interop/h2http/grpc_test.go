package h2http

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// TestGRPCHandler serves grpc-go's server and a page on one port.
func TestGRPCHandler(t *testing.T) {
	eachWay(t, func(t *testing.T, s security) {
		checks := health.NewServer()
		g := grpc.NewServer()
		healthpb.RegisterHealthServer(g, checks)
		url := serve(t, s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
				g.ServeHTTP(w, r)
				return
			}
			io.WriteString(w, "a page")
		}))
		t.Cleanup(g.Stop)
		creds := insecure.NewCredentials()
		if s != plain {
			creds = credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})
		}
		addr := strings.TrimPrefix(strings.TrimPrefix(url, "http://"), "https://")
		cc, err := grpc.NewClient(addr, grpc.WithTransportCredentials(creds))
		if err != nil {
			t.Fatal(err)
		}
		defer cc.Close()
		stub := healthpb.NewHealthClient(cc)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		for range 50 {
			if _, err := stub.Check(ctx, new(healthpb.HealthCheckRequest)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := stub.Check(ctx, &healthpb.HealthCheckRequest{Service: "unknown"}); status.Code(err) != codes.NotFound {
			t.Errorf("an error came as %v", err)
		}
		watch, err := stub.Watch(ctx, new(healthpb.HealthCheckRequest))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []healthpb.HealthCheckResponse_ServingStatus{healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING} {
			if m, err := watch.Recv(); err != nil || m.Status != want {
				t.Fatalf("%v, %v", m, err)
			}
			checks.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
		}
		resp, err := client(t).Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if b, _ := io.ReadAll(resp.Body); string(b) != "a page" {
			t.Errorf("%q", b)
		}
	})
}

// TestGateway serves grpc-gateway's ServeMux.
func TestGateway(t *testing.T) {
	eachWay(t, func(t *testing.T, s security) {
		gateway := runtime.NewServeMux()
		err := gateway.HandlePath("GET", "/v1/status/{name}", func(w http.ResponseWriter, r *http.Request, p map[string]string) {
			_, out := runtime.MarshalerForRequest(gateway, r)
			runtime.ForwardResponseMessage(r.Context(), gateway, out, w, r, &healthpb.HealthCheckRequest{Service: p["name"]})
		})
		if err != nil {
			t.Fatal(err)
		}
		url := serve(t, s, gateway)
		resp, err := client(t).Get(url + "/v1/status/x")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if b, err := io.ReadAll(resp.Body); strings.ReplaceAll(string(b), " ", "") != `{"service":"x"}` || err != nil {
			t.Errorf("%q, %v", b, err)
		}
		resp, err = client(t).Get(url + "/v1/nothing")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s", resp.Status)
		}
	})
}
