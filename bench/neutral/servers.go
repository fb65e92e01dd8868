package main

import (
	"context"
	"fmt"
	"net"

	"github.com/tarn-go/tarn/internal/child"
	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// echo answers with the request's payload.
type echo struct {
	pb.UnimplementedTestServiceServer
}

func (echo) UnaryCall(_ context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{Payload: in.Payload}, nil
}

// serve runs a Go server until standard input ends. It prints its address.
func serve(name string) error {
	const window = 16 << 20
	var s interface {
		grpc.ServiceRegistrar
		Serve(net.Listener) error
		Stop()
	}
	switch name {
	case "tarn":
		s = rpc.NewServer(rpc.MaxRecvMsgSize(16 << 20))
	case "tarn-lent":
		s = rpc.NewServer(rpc.MaxRecvMsgSize(16<<20), rpc.LendRequests())
	case "grpc":
		s = grpc.NewServer(grpc.MaxRecvMsgSize(16<<20), grpc.InitialWindowSize(window), grpc.InitialConnWindowSize(window))
	default:
		return fmt.Errorf("there is no server %q", name)
	}
	pb.RegisterTestServiceServer(s, echo{})
	l, err := child.Listen(s.Stop)
	if err != nil {
		return err
	}
	return s.Serve(l)
}
