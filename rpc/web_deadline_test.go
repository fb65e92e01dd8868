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

// unreadInput is a service that does not receive the messages of StreamingInputCall. After its header it waits for the call's end.
type unreadInput struct{ testService }

func (*unreadInput) StreamingInputCall(stream pb.TestService_StreamingInputCallServer) error {
	if err := stream.SendHeader(nil); err != nil {
		return err
	}
	<-stream.Context().Done()
	return stream.Context().Err()
}

// TestCallsAfterADeadline makes calls after others whose deadline has passed when their header had been sent, of which the client reads
// the response later: over the same connection of HTTP/1.1, or another if theirs ends. Neither the contexts nor the responses of the calls are
// affected.
func TestCallsAfterADeadline(t *testing.T) {
	svc := &unreadInput{testService{
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
	}}
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
				registerLookup(t, s, func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
					return &pb.SimpleResponse{Payload: payload(100_000)}, nil
				})
				lis := newPipes()
				stop := serve(s, lis)
				client := &http.Transport{DialContext: lis.dialNetwork, MaxConnsPerHost: 1, DisableCompression: true}
				defer func() {
					client.CloseIdleConnections()
					stop()
					s.Stop()
				}()
				for range 2 {
					for _, c := range []struct{ method, contentType, body, timeout, want string }{
						{"Find", "", "", "100", `"body":`},
						{"UnaryCall", "application/json", "{}", "", "{}"},
						{"StreamingOutputCall", "application/connect+json", "\x00\x00\x00\x00\x02{}", "100", "deadline_exceeded"},
						{"UnaryCall", "application/json", "{}", "", "{}"},
						{"StreamingInputCall", "application/connect+json", "", "100", "deadline_exceeded"},
						{"UnaryCall", "application/json", "{}", "", "{}"},
						{"StreamingInputCall", "application/connect+json", "\x00\x00\x00\x00\x02{}", "100", "deadline_exceeded"},
						{"UnaryCall", "application/json", "{}", "", "{}"},
						{"UnaryCall", "application/json", "{}", "100", "deadline_exceeded"},
					} {
						url, method := "http://svc/grpc.testing.TestService/"+c.method, http.MethodPost
						if c.contentType == "" {
							url, method = "http://svc/"+lookupService+"/"+c.method+"?connect=v1&encoding=json&message={}", http.MethodGet
						}
						r, err := http.NewRequest(method, url, strings.NewReader(c.body))
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
						<-time.After(200 * time.Millisecond)
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
