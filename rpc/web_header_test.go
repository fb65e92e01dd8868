package rpc_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// TestSendHeaderIsSentAtOnce: SendHeader of a unary handler sends the header while the handler runs, over gRPC and gRPC-Web, on every server as
// on grpc-go's; reply, status and trailer follow.
func TestSendHeaderIsSentAtOnce(t *testing.T) {
	arrived := make(chan struct{}, 1) // the client has the header
	svc := &testService{unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		if err := grpc.SendHeader(ctx, metadata.Pairs("x-sent", "1")); err != nil {
			t.Errorf("SendHeader: %v", err)
		}
		if grpc.SendHeader(ctx, nil) == nil || grpc.SetHeader(ctx, metadata.Pairs("a", "b")) == nil {
			t.Error("the header can be sent again")
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			t.Error("the header has not been sent")
		}
		grpc.SetTrailer(ctx, metadata.Pairs("x-end", "2"))
		if in.GetFillUsername() {
			return nil, status.Error(codes.NotFound, "gone")
		}
		return &pb.SimpleResponse{Username: "name"}, nil
	}}
	behind := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)))
	pb.RegisterTestServiceServer(behind, svc)
	_, ownPort := startTarn(t, svc)
	_, stock := startGRPC(t, svc)
	list := clients(t)
	for _, x := range []struct {
		server, addr string
		both         bool // gRPC-Web, too
	}{
		{"grpc-go", stock, false},
		{"Serve", ownPort, true},
		{"h2http", serveH2HTTP(t, behind), true},
		{"net/http", serveHTTP2(t, behind), true},
	} {
		for _, p := range []struct {
			contentType string
			major       int
		}{{"application/grpc", 2}, {"application/grpc-web", 2}, {"application/grpc-web", 1}} {
			if p.contentType != "application/grpc" && !x.both {
				continue
			}
			for body, want := range map[string][]string{
				"":         {"name", "0", ""},
				"\x20\x01": {"", "5", "gone"}, // fill_username
			} {
				name := fmt.Sprintf("%s, %s, HTTP/%d, %q", x.server, p.contentType, p.major, body)
				r, err := http.NewRequestWithContext(ctxFor(t), "POST", "http://"+x.addr+"/grpc.testing.TestService/UnaryCall", strings.NewReader(envelope(body)))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Content-Type", p.contentType)
				r.Header.Set("Te", "trailers")
				r.Header.Set("Grpc-Timeout", "5S")
				res, err := list[p.major].Do(r)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				arrived <- struct{}{}
				text, err := io.ReadAll(res.Body)
				res.Body.Close()
				select {
				case <-arrived: // the handler has not waited for it
				default:
				}
				if err != nil || res.StatusCode != 200 || res.Header.Get("X-Sent") != "1" || res.Header.Get("Grpc-Status") != "" || !strings.Contains(string(text), want[0]) {
					t.Errorf("%s: %v, %v, %v, %q", name, err, res.Status, res.Header, text)
				}
				trailer := res.Trailer
				if p.contentType != "application/grpc" {
					trailer = http.Header{}
					for line := range strings.Lines(string(text)) {
						key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
						trailer.Set(key[max(strings.Index(key, "x-"), strings.Index(key, "grpc-"), 0):], value)
					}
				}
				if trailer.Get("Grpc-Status") != want[1] || trailer.Get("Grpc-Message") != want[2] || trailer.Get("X-End") != "2" {
					t.Errorf("%s: the trailer is %q", name, trailer)
				}
			}
		}
	}
}

// serveH2HTTP serves h on h2http's server, over HTTP/2 and HTTP/1.1.
func serveH2HTTP(t *testing.T, h http.Handler) string {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h}
	go h2http.Serve(lis, srv)
	t.Cleanup(func() { srv.Close() })
	return lis.Addr().String()
}
