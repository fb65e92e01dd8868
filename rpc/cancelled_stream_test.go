package rpc_test

import (
	"context"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// halfClosed counts the client streams whose server received the end of the requests.
type halfClosed struct {
	pb.UnimplementedTestServiceServer
	ends chan error
}

func (s *halfClosed) StreamingInputCall(stream pb.TestService_StreamingInputCallServer) error {
	for {
		if _, err := stream.Recv(); err != nil {
			s.ends <- err
			return stream.SendAndClose(&pb.StreamingInputCallResponse{})
		}
	}
}

// A stream that is half-closed after its context has ended ends with CANCELED, however fast the server
// answers, and the server never takes its requests for complete.
func TestCancelledStreamIsNotCompleted(t *testing.T) {
	const calls = 200
	service := &halfClosed{ends: make(chan error, calls)}
	_, addr := startTarn(t, service)
	c := pb.NewTestServiceClient(dialTarn(t, addr))
	for range calls {
		ctx, cancel := context.WithCancel(ctxFor(t))
		s, err := c.StreamingInputCall(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(&pb.StreamingInputCallRequest{Payload: payload(10)}); err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := s.CloseAndRecv(); status.Code(err) != codes.Canceled {
			t.Fatalf("the call ended with %v", err)
		}
		if err := <-service.ends; status.Code(err) != codes.Canceled {
			t.Fatalf("the server saw %v", err)
		}
	}
}

// A message that arrived before the context ended is not returned afterwards.
func TestNothingIsReadUnderAnEndedContext(t *testing.T) {
	_, addr := startTarn(t, &testService{})
	for _, p := range []rpc.Protocol{rpc.GRPC, rpc.GRPCWeb, rpc.Connect} {
		c := pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithProtocol(p)))
		for range 50 {
			ctx, cancel := context.WithCancel(ctxFor(t))
			s, err := c.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{ResponseParameters: []*pb.ResponseParameters{{Size: 10}, {Size: 10}}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Recv(); err != nil {
				t.Fatal(err)
			}
			cancel()
			if m, err := s.Recv(); status.Code(err) != codes.Canceled {
				t.Fatalf("%v: got %v, %v", p, m, err)
			}
		}
	}
}
