package rpc_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

type sizedService struct {
	pb.UnimplementedTestServiceServer
}

func (sizedService) UnaryCall(_ context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return &pb.SimpleResponse{Payload: in.Payload}, nil
}

// peers are both implementations, with pools as users configure them.
var peers = []struct {
	name   string
	server func() server
	dial   func(addr string) (grpc.ClientConnInterface, error)
}{
	{"tarn", func() server {
		s := rpc.NewServer()
		pb.RegisterTestServiceServer(s, sizedService{})
		return s
	}, func(addr string) (grpc.ClientConnInterface, error) {
		return rpc.NewClient(addr, rpc.WithTransportCredentials(insecure.NewCredentials()))
	}},
	{"grpc", func() server {
		s := grpc.NewServer()
		pb.RegisterTestServiceServer(s, sizedService{})
		return s
	}, func(addr string) (grpc.ClientConnInterface, error) {
		return grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	}},
}

// BenchmarkUnary makes unary calls that echo a payload over one connection on
// loopback. peer=grpc is default grpc-go in the same run.
func BenchmarkUnary(b *testing.B) {
	for _, size := range []int{100, 16 << 10, 1 << 20} {
		for _, callers := range []int{1, 64} {
			for _, p := range peers {
				b.Run(fmt.Sprintf("size=%d/callers=%d/peer=%s", size, callers, p.name), func(b *testing.B) {
					lis, err := net.Listen("tcp", "127.0.0.1:0")
					if err != nil {
						b.Fatal(err)
					}
					s := p.server()
					go s.Serve(lis)
					defer s.Stop()
					cc, err := p.dial(lis.Addr().String())
					if err != nil {
						b.Fatal(err)
					}
					defer cc.(interface{ Close() error }).Close()
					benchUnary(b, pb.NewTestServiceClient(cc), size, callers)
				})
			}
		}
	}
}

func benchUnary(b *testing.B, c pb.TestServiceClient, size, callers int) {
	ctx := context.Background()
	req := &pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, size)}}
	if _, err := c.UnaryCall(ctx, req); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for i := range callers {
		n := b.N / callers
		if i < b.N%callers {
			n++
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range n {
				if _, err := c.UnaryCall(ctx, req); err != nil {
					b.Error(err)
					return
				}
			}
		}()
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}
