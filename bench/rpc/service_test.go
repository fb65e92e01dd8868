package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"

	pb "google.golang.org/grpc/interop/grpc_testing"
)

const maxMessage = 16 << 20

// service answers each request with as many bytes as it asks for. It implements grpc-go's stub; the
// connect-go handlers call answer themselves.
type service struct {
	pb.UnimplementedBenchmarkServiceServer
	body []byte
}

func newService() *service { return &service{body: make([]byte, 1<<20)} }

func (s *service) answer(req *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	n := int(req.GetResponseSize())
	if n < 0 || n > len(s.body) {
		return nil, fmt.Errorf("asked for %d bytes", n)
	}
	return &pb.SimpleResponse{Payload: &pb.Payload{Body: s.body[:n]}}, nil
}

func (s *service) UnaryCall(_ context.Context, req *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return s.answer(req)
}

func (s *service) StreamingCall(stream pb.BenchmarkService_StreamingCallServer) error {
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		resp, err := s.answer(req)
		if err != nil {
			return err
		}
		if err := stream.Send(resp); err != nil {
			return err
		}
	}
}

func request(size int) *pb.SimpleRequest {
	return &pb.SimpleRequest{ResponseSize: int32(size), Payload: &pb.Payload{Body: make([]byte, size)}}
}

func checkSize(resp *pb.SimpleResponse, size int) error {
	if n := len(resp.GetPayload().GetBody()); n != size {
		return fmt.Errorf("%d bytes arrived, not %d", n, size)
	}
	return nil
}
