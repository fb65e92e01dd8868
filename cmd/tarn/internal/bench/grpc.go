package bench

import (
	"context"
	"fmt"
	"net"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/adapt"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/experimental"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/mem"
)

// maxMessage lifts grpc's limit of 4 MB well above the largest message sent here.
const maxMessage = 16 << 20

// runGRPC makes unary calls with unmodified grpc-go. Only the buffer pool differs between contestants.
func runGRPC(ctx context.Context, s *session) ([]Case, error) {
	pool, err := tarn.NewPool(tarn.PoolConfig{Name: "tarn bench grpc"})
	if err != nil {
		return nil, err
	}
	var pairs []*grpcPair
	for _, p := range []struct {
		name string
		kind Kind
		pool mem.BufferPool
	}{
		{"default", Peer, mem.DefaultBufferPool()},
		{"tarn", Tarn, adapt.GRPC(pool)},
	} {
		pair, err := newGRPCPair(
			[]grpc.ServerOption{experimental.BufferPool(p.pool)},
			[]grpc.DialOption{experimental.WithBufferPool(p.pool)})
		if err != nil {
			return nil, err
		}
		defer pair.close()
		pair.name, pair.kind = p.name, p.kind
		pairs = append(pairs, pair)
	}
	var cases []Case
	for _, size := range s.some([]int{100, 16 << 10, 1 << 20}) {
		var loads []load
		for _, p := range pairs {
			loads = append(loads, load{p.name, p.kind, unary(p.conn, size)})
		}
		c, err := s.runLoads(ctx, unaryTitle(size, s.callers), loads)
		if err != nil {
			return nil, err
		}
		c.Note = "grpc-go's transport and handlers are the same on both sides; only where messages are kept differs."
		cases = append(cases, c)
	}
	return cases, nil
}

func unaryTitle(size, callers int) string {
	return fmt.Sprintf("Unary calls, %s each way, %d callers on one connection", sizeName(size), callers)
}

// unary returns a call that sends size bytes and gets as many.
func unary(conn grpc.ClientConnInterface, size int) func(context.Context, int) error {
	client := pb.NewBenchmarkServiceClient(conn)
	req := &pb.SimpleRequest{ResponseSize: int32(size), Payload: &pb.Payload{Body: make([]byte, size)}}
	return func(ctx context.Context, _ int) error {
		resp, err := client.UnaryCall(ctx, req)
		if err == nil && len(resp.Payload.GetBody()) != size {
			return fmt.Errorf("%d bytes arrived, not %d", len(resp.Payload.GetBody()), size)
		}
		return err
	}
}

// benchService answers with as many bytes as it is asked for.
type benchService struct {
	pb.UnimplementedBenchmarkServiceServer
	body []byte
}

func (b *benchService) UnaryCall(_ context.Context, req *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	n := int(req.ResponseSize)
	if n < 0 || n > len(b.body) {
		return nil, fmt.Errorf("asked for %d bytes", n)
	}
	return &pb.SimpleResponse{Payload: &pb.Payload{Body: b.body[:n]}}, nil
}

func newBenchService() *benchService { return &benchService{body: make([]byte, 1<<20)} }

type grpcPair struct {
	name   string
	kind   Kind
	server *grpc.Server
	conn   *grpc.ClientConn
}

// newGRPCPair starts a server on a free port of the loopback interface and connects to it.
func newGRPCPair(so []grpc.ServerOption, do []grpc.DialOption) (*grpcPair, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer(append(so, grpc.MaxRecvMsgSize(maxMessage))...)
	pb.RegisterBenchmarkServiceServer(server, newBenchService())
	go server.Serve(l) // ends with Stop
	conn, err := grpc.NewClient("passthrough:///"+l.Addr().String(), append(do,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))...)
	if err != nil {
		server.Stop()
		return nil, err
	}
	return &grpcPair{server: server, conn: conn}, nil
}

func (p *grpcPair) close() {
	p.conn.Close()
	p.server.Stop()
}
