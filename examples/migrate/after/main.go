// Command after is command before on Tarn's rpc, as `tarn migrate` has changed it: seven places, which `diff before/main.go after/main.go` shows.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/keepalive"
)

type service struct {
	pb.UnimplementedTestServiceServer
}

func (service) UnaryCall(_ context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{Payload: in.GetPayload()}, nil
}

// logged is an interceptor of a client: its signature has grpc-go's ClientConn, and stays as it is.
func logged(ctx context.Context, method string, in, out any, cc *grpc.ClientConn, next grpc.UnaryInvoker, options ...grpc.CallOption) error {
	err := next(ctx, method, in, out, cc, options...)
	fmt.Println(method, err)
	return err
}

func dial(target string) (*rpc.ClientConn, error) {
	return rpc.NewClient(target,
		rpc.WithTransportCredentials(insecure.NewCredentials()),
		rpc.WithUnaryInterceptor(logged),
		rpc.WithKeepaliveParams(keepalive.ClientParameters{Time: time.Minute}),
	)
}

func main() {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	s := rpc.NewServer(rpc.MaxRecvMsgSize(16 << 20))
	pb.RegisterTestServiceServer(s, service{})
	go s.Serve(lis)
	defer s.GracefulStop()

	cc, err := dial(lis.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer cc.Close()
	out, err := pb.NewTestServiceClient(cc).UnaryCall(context.Background(), &pb.SimpleRequest{Payload: &pb.Payload{Body: []byte("hello")}}, grpc.WaitForReady(true))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", out.GetPayload().GetBody())
}
