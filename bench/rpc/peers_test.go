package rpc

import (
	"context"
	"net"
	"runtime"
	"testing"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/adapt"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/experimental"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// peer is a contestant: a server, and clients of it.
type peer struct {
	name   string
	serve  func(tb testing.TB, l net.Listener, sec security)
	client func(tb testing.TB, addr string, sec security) client
}

// client is one connection.
type client interface {
	unary(ctx context.Context, req *pb.SimpleRequest) (*pb.SimpleResponse, error)
	// stream opens a stream, which ends with ctx; the function it returns sends a request on it and
	// waits for the answer.
	stream(ctx context.Context) (func(*pb.SimpleRequest) (*pb.SimpleResponse, error), error)
}

func peers() []peer {
	return []peer{
		tarnPeer(),
		grpcPeer("grpc", nil, nil),
		tunedPeer(),
		connectPeer(),
	}
}

func grpcPeer(name string, so []grpc.ServerOption, do []grpc.DialOption) peer {
	return peer{
		name: name,
		serve: func(tb testing.TB, l net.Listener, sec security) {
			s := grpc.NewServer(append([]grpc.ServerOption{
				grpc.MaxRecvMsgSize(maxMessage), grpc.Creds(sec.grpcServer()),
			}, so...)...)
			pb.RegisterBenchmarkServiceServer(s, newService())
			go s.Serve(l) // ends with Stop
			tb.Cleanup(s.Stop)
		},
		client: func(tb testing.TB, addr string, sec security) client {
			cc, err := grpc.NewClient("passthrough:///"+addr, append([]grpc.DialOption{
				grpc.WithTransportCredentials(sec.grpcClient()),
				grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
			}, do...)...)
			if err != nil {
				tb.Fatal(err)
			}
			tb.Cleanup(func() { cc.Close() })
			return stubClient{pb.NewBenchmarkServiceClient(cc)}
		},
	}
}

// tunedPeer is grpc-go tuned by its options; doc.go lists them.
func tunedPeer() peer {
	const streamWindow, connWindow = 4 << 20, 16 << 20
	pool := adapt.GRPC(tarn.Shared())
	return grpcPeer("grpc-tuned",
		[]grpc.ServerOption{
			grpc.StaticStreamWindowSize(streamWindow), grpc.StaticConnWindowSize(connWindow),
			grpc.NumStreamWorkers(uint32(runtime.GOMAXPROCS(0))),
			experimental.BufferPool(pool),
		},
		[]grpc.DialOption{
			grpc.WithStaticStreamWindowSize(streamWindow), grpc.WithStaticConnWindowSize(connWindow),
			experimental.WithBufferPool(pool),
		})
}

// stubClient is any runtime that grpc-go's generated stub runs on.
type stubClient struct{ stub pb.BenchmarkServiceClient }

func (c stubClient) unary(ctx context.Context, req *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return c.stub.UnaryCall(ctx, req)
}

func (c stubClient) stream(ctx context.Context) (func(*pb.SimpleRequest) (*pb.SimpleResponse, error), error) {
	s, err := c.stub.StreamingCall(ctx)
	if err != nil {
		return nil, err
	}
	return func(req *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		if err := s.Send(req); err != nil {
			return nil, err
		}
		return s.Recv()
	}, nil
}

// grpcServer and grpcClient are the credentials of everything that takes grpc-go's.

func (s security) grpcServer() credentials.TransportCredentials {
	if s.server == nil {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(s.server)
}

func (s security) grpcClient() credentials.TransportCredentials {
	if s.client == nil {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(s.client)
}
