package rpc_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// TestStopEndsCallsOfServeHTTP: Stop cancels the calls that ServeHTTP serves behind another http.Server, also when GracefulStop waits for
// them, and their clients get UNAVAILABLE, as those of Serve do.
func TestStopEndsCallsOfServeHTTP(t *testing.T) {
	clients := map[string]rpc.DialOption{
		"gRPC": rpc.WithProtocol(rpc.GRPC), "gRPC-Web": rpc.WithProtocol(rpc.GRPCWeb), "Connect": rpc.WithProtocol(rpc.Connect),
	}
	handlers := map[string]func(pb.TestService_StreamingInputCallServer) error{
		"waiting": func(s pb.TestService_StreamingInputCallServer) error {
			<-s.Context().Done()
			return s.Context().Err()
		},
		"receiving": func(s pb.TestService_StreamingInputCallServer) error {
			_, err := s.Recv()
			return err
		},
	}
	for client, protocol := range clients {
		for state, handler := range handlers {
			for _, gracefully := range []string{"Stop", "GracefulStop and Stop"} {
				t.Run(fmt.Sprint(client, "/", state, "/", gracefully), func(t *testing.T) {
					s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true))
					began, ended := make(chan struct{}), make(chan error, 1)
					pb.RegisterTestServiceServer(s, &inputService{handler: func(in pb.TestService_StreamingInputCallServer) error {
						close(began)
						err := handler(in)
						ended <- err
						return err
					}})
					addr := serveHTTP2(t, s)
					c, err := pb.NewTestServiceClient(dialTarn(t, addr, protocol)).StreamingInputCall(ctxFor(t))
					if err != nil {
						t.Fatal(err)
					}
					<-began
					graceful := make(chan struct{})
					go func() {
						defer close(graceful)
						if gracefully != "Stop" {
							s.GracefulStop()
						}
					}()
					within(t, "Stop", s.Stop)
					within(t, "GracefulStop", func() { <-graceful })
					if err := <-ended; status.Code(err) != codes.Canceled && err != context.Canceled {
						t.Errorf("the handler ended with %v", err)
					}
					_, err = c.CloseAndRecv()
					wantCode(t, err, codes.Unavailable)
				})
			}
		}
	}
}

// inputService has a handler of StreamingInputCall.
type inputService struct {
	testService
	handler func(pb.TestService_StreamingInputCallServer) error
}

func (s *inputService) StreamingInputCall(in pb.TestService_StreamingInputCallServer) error {
	return s.handler(in)
}
