package rpc_test

import (
	"context"
	"fmt"
	"net"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

type echo struct {
	pb.UnimplementedTestServiceServer
}

func (echo) UnaryCall(_ context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{Payload: in.Payload}, nil
}

// A service adopts Tarn by two lines: rpc.NewServer for grpc.NewServer and rpc.NewClient for grpc.NewClient.
func Example() {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	s := rpc.NewServer()
	pb.RegisterTestServiceServer(s, echo{})
	go s.Serve(lis)
	defer s.GracefulStop()

	cc, err := rpc.NewClient(lis.Addr().String(), rpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cc.Close()
	out, err := pb.NewTestServiceClient(cc).UnaryCall(context.Background(),
		&pb.SimpleRequest{Payload: &pb.Payload{Body: []byte("hello")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", out.Payload.Body)
	// Output: hello
}

// A server and a client of one process may have separate pools, so that their memory is bounded and counted
// separately.
func ExamplePool() {
	pool, err := tarn.NewPool(tarn.PoolConfig{Name: "ingest", Retain: 16 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	s := rpc.NewServer(rpc.Pool(pool))
	defer s.Stop()
	fmt.Println(pool.Stats().Name)
	// Output: ingest
}
