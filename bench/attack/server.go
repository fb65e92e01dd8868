package main

import (
	"context"
	"fmt"
	"net"

	"github.com/tarn-go/tarn/bench/internal/child"
	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// service is what is attacked: one method that answers, one that takes as long as its caller waits, one that
// reads and one that sends.
type service struct {
	pb.UnimplementedTestServiceServer
}

func (service) UnaryCall(_ context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{Payload: in.Payload}, nil
}

func (service) EmptyCall(ctx context.Context, _ *pb.Empty) (*pb.Empty, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// FullDuplexCall ends when its caller gives up and reads nothing.
func (service) FullDuplexCall(s pb.TestService_FullDuplexCallServer) error {
	<-s.Context().Done()
	return nil
}

func (service) StreamingInputCall(s pb.TestService_StreamingInputCallServer) error {
	for {
		if _, err := s.Recv(); err != nil {
			return err
		}
	}
}

// StreamingOutputCall sends 64 MiB, whatever is asked for.
func (service) StreamingOutputCall(_ *pb.StreamingOutputCallRequest, s pb.TestService_StreamingOutputCallServer) error {
	m := &pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: make([]byte, 1<<20)}}
	for range 64 {
		if err := s.Send(m); err != nil {
			return err
		}
	}
	return nil
}

// serve runs a server with default options until standard input ends. It prints its address.
func serve(name string) error {
	var s interface {
		grpc.ServiceRegistrar
		Serve(net.Listener) error
		Stop()
	}
	switch name {
	case "tarn":
		s = rpc.NewServer()
	case "grpc":
		s = grpc.NewServer()
	default:
		return fmt.Errorf("there is no server %q", name)
	}
	pb.RegisterTestServiceServer(s, service{})
	l, err := child.Listen(s.Stop)
	if err != nil {
		return err
	}
	return s.Serve(l)
}
