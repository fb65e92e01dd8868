package rpc_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// TestCallsAfterADeadline makes calls on a connection of HTTP/1.1 on which a stream has ended at its deadline, after its
// header. Neither the contexts nor the responses of the calls are affected by the end of the stream.
func TestCallsAfterADeadline(t *testing.T) {
	svc := &testService{
		output: func(_ *pb.StreamingOutputCallRequest, out pb.TestService_StreamingOutputCallServer) error {
			if err := out.Send(&pb.StreamingOutputCallResponse{}); err != nil {
				return err
			}
			<-out.Context().Done()
			return out.Context().Err()
		},
		unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Second):
			}
			return &pb.SimpleResponse{}, ctx.Err()
		},
	}
	serves := map[string]func(s *rpc.Server, lis *pipes) (stop func()){
		"Serve": func(s *rpc.Server, lis *pipes) func() {
			go s.Serve(lis)
			return func() {}
		},
		"ServeHTTP": func(s *rpc.Server, lis *pipes) func() {
			h := &http.Server{Handler: s}
			go h.Serve(lis)
			return func() { h.Close() }
		},
	}
	for name, serve := range serves {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)))
				pb.RegisterTestServiceServer(s, svc)
				lis := newPipes()
				stop := serve(s, lis)
				client := &http.Transport{DialContext: lis.dialNetwork, MaxConnsPerHost: 1}
				defer func() {
					client.CloseIdleConnections()
					stop()
					s.Stop()
				}()
				for range 2 {
					for _, c := range []struct{ method, contentType, body, timeout, want string }{
						{"StreamingOutputCall", "application/connect+json", "\x00\x00\x00\x00\x02{}", "100", "deadline_exceeded"},
						{"UnaryCall", "application/json", "{}", "", "{}"},
						{"UnaryCall", "application/json", "{}", "100", "deadline_exceeded"},
					} {
						r, err := http.NewRequest(http.MethodPost, "http://svc/grpc.testing.TestService/"+c.method, strings.NewReader(c.body))
						if err != nil {
							t.Fatal(err)
						}
						r.Header.Set("Content-Type", c.contentType)
						if c.timeout != "" {
							r.Header.Set("Connect-Timeout-Ms", c.timeout)
						}
						res, err := client.RoundTrip(r)
						if err != nil {
							t.Fatalf("%s: %v", c.method, err)
						}
						body, err := io.ReadAll(res.Body)
						res.Body.Close()
						if err != nil || !strings.Contains(string(body), c.want) {
							t.Errorf("%s: %d %q, %v; want %s", c.method, res.StatusCode, body, err, c.want)
						}
					}
				}
			})
		})
	}
}
