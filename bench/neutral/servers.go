package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"

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
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
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
	go func() {
		io.Copy(io.Discard, os.Stdin)
		s.Stop()
	}()
	fmt.Println(lis.Addr())
	return s.Serve(lis)
}
