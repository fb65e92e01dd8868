package rpc_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
)

// The requests of a port's HTTP/2 have no Header when they come to ServeHTTP: metadata, CORS and refusals are those of
// HTTP/1.1, whose requests have one.
func TestFieldsOfRequests(t *testing.T) {
	seen := make(chan metadata.MD, 1)
	svc := &testService{unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		seen <- md
		return &pb.SimpleResponse{}, nil
	}}
	_, addr := startTarn(t, svc, rpc.CORS(rpc.CORSConfig{Origins: []string{"https://app.example"}}))
	for _, c := range []struct {
		name, method string
		header       http.Header
		want         int
		md           metadata.MD // of what the handler gets; nil: it is not called
	}{
		{"metadata", "POST", http.Header{"Content-Type": {"application/json"}, "X-Two": {"1", "2"}, "X-Bytes-Bin": {"AAE"}, "Connect-Timeout-Ms": {"60000"}}, 200,
			metadata.MD{"x-two": {"1", "2"}, "x-bytes-bin": {"\x00\x01"}, "content-type": {"application/json"}, ":authority": {addr}}},
		{"many fields", "POST", http.Header{"Content-Type": {"application/json"}, "X-1": {"1"}, "X-2": {"2"}, "X-3": {"3"}, "X-4": {"4"}, "X-5": {"5"}, "X-6": {"6"}}, 200,
			metadata.MD{"x-1": {"1"}, "x-6": {"6"}}},
		{"no base64", "POST", http.Header{"Content-Type": {"application/json"}, "X-Bytes-Bin": {"?"}}, 400, nil},
		{"another content type", "POST", http.Header{"Content-Type": {"text/plain"}}, 415, nil},
		{"preflight", "OPTIONS", http.Header{"Origin": {"https://app.example"}, "Access-Control-Request-Method": {"POST"}}, 204, nil},
		{"of another origin", "POST", http.Header{"Content-Type": {"application/json"}, "Origin": {"https://app.example"}}, 200, metadata.MD{"origin": {"https://app.example"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for major, client := range clients(t) {
				for range 3 { // by then the fields are remembered
					r, err := http.NewRequestWithContext(ctxFor(t), c.method, "http://"+addr+"/grpc.testing.TestService/UnaryCall", strings.NewReader("{}"))
					if err != nil {
						t.Fatal(err)
					}
					r.Header = c.header.Clone()
					res, err := client.Do(r)
					if err != nil {
						t.Fatal(err)
					}
					res.Body.Close()
					if res.StatusCode != c.want {
						t.Errorf("HTTP/%d: %s, want %d", major, res.Status, c.want)
					}
					if allowed := res.Header.Get("Access-Control-Allow-Origin"); allowed != c.header.Get("Origin") {
						t.Errorf("HTTP/%d: the origin allowed is %q", major, allowed)
					}
					if c.md == nil || res.StatusCode != 200 {
						continue
					}
					md := <-seen
					for key, want := range c.md {
						if got := md[key]; strings.Join(got, ",") != strings.Join(want, ",") {
							t.Errorf("HTTP/%d: %s is %q, want %q", major, key, got, want)
						}
					}
				}
			}
		})
	}
}
