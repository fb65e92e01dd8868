// Command hello serves one gRPC service with rpc and calls it with rpc's client and with grpc-go's: the stubs, the
// interceptors and the bytes on the wire are the same. Only the two lines that are marked differ from a program on grpc-go.
package main

import (
	"context"
	"fmt"
	"log"
	"net"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// greeter is a service as it is written for grpc-go.
type greeter struct {
	pb.UnimplementedTestServiceServer
}

func (greeter) UnaryCall(_ context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{Payload: &pb.Payload{Body: append([]byte("hello, "), in.GetPayload().GetBody()...)}}, nil
}

func main() {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	s := rpc.NewServer() // grpc.NewServer()
	pb.RegisterTestServiceServer(s, greeter{})
	go s.Serve(lis)
	defer s.GracefulStop()

	plain := insecure.NewCredentials()
	ours, err := rpc.NewClient(lis.Addr().String(), rpc.WithTransportCredentials(plain)) // grpc.NewClient
	if err != nil {
		log.Fatal(err)
	}
	defer ours.Close()
	theirs, err := grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(plain))
	if err != nil {
		log.Fatal(err)
	}
	defer theirs.Close()

	greet(ours, "from rpc's client")
	greet(theirs, "from grpc-go's client")
}

// greet takes either client: stubs take a grpc.ClientConnInterface.
func greet(cc grpc.ClientConnInterface, name string) {
	out, err := pb.NewTestServiceClient(cc).UnaryCall(context.Background(), &pb.SimpleRequest{Payload: &pb.Payload{Body: []byte(name)}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", out.GetPayload().GetBody())
}
