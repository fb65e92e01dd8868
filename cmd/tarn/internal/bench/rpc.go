package bench

import (
	"context"
	"net"
	"runtime"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/adapt"
	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/experimental"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// runRPC makes the same unary calls, over generated stubs, with grpc-go's defaults, with grpc-go tuned by its
// options, and with Tarn's rpc.
func runRPC(ctx context.Context, s *session) ([]Case, error) {
	pairs, err := rpcPairs()
	defer func() {
		for _, p := range pairs {
			p.close()
		}
	}()
	if err != nil {
		return nil, err
	}
	var cases []Case
	for _, size := range s.some([]int{100, 16 << 10, 1 << 20}) {
		k := *s
		if size < 1<<10 {
			k.callers = smallCallers
		}
		var loads []load
		for _, p := range pairs {
			loads = append(loads, load{p.name, p.kind, unary(p.conn, size)})
		}
		c, err := k.runLoads(ctx, unaryTitle(size, k.callers), loads)
		if err != nil {
			return nil, err
		}
		c.Note = tunedNote
		cases = append(cases, c)
	}
	c, err := runStreams(ctx, s, pairs)
	c.Note = tunedNote
	return append(cases, c), err
}

const (
	// smallCallers is how many callers make small calls: enough for them to share system calls.
	smallCallers = 64

	tunedNote = "Tuned: static windows, stream workers, Tarn's pool through adapt."
)

// rpcPair is a client and its server.
type rpcPair struct {
	name  string
	kind  Kind
	conn  grpc.ClientConnInterface
	close func()
}

// rpcPairs starts the contestants. Those it returns with an error are to be closed as well.
func rpcPairs() ([]rpcPair, error) {
	var pairs []rpcPair
	for _, g := range []struct {
		name string
		so   []grpc.ServerOption
		do   []grpc.DialOption
	}{
		{"grpc-go", nil, nil},
		{"grpc-go tuned", tunedServer(), tunedClient()},
	} {
		p, err := newGRPCPair(g.so, g.do)
		if err != nil {
			return pairs, err
		}
		pairs = append(pairs, rpcPair{g.name, Peer, p.conn, p.close})
	}
	p, err := newTarnPair()
	if err != nil {
		return pairs, err
	}
	return append(pairs, p), nil
}

const streamWindow, connWindow = 4 << 20, 16 << 20

func tunedServer() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.StaticStreamWindowSize(streamWindow), grpc.StaticConnWindowSize(connWindow),
		grpc.NumStreamWorkers(uint32(runtime.GOMAXPROCS(0))),
		experimental.BufferPool(adapt.GRPC(tarn.Shared())),
	}
}

func tunedClient() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithStaticStreamWindowSize(streamWindow), grpc.WithStaticConnWindowSize(connWindow),
		experimental.WithBufferPool(adapt.GRPC(tarn.Shared())),
	}
}

// newTarnPair is newGRPCPair with Tarn's runtime: the same stub, the same service.
func newTarnPair() (rpcPair, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return rpcPair{}, err
	}
	pool, err := tarn.NewPool(tarn.PoolConfig{Name: "tarn bench rpc"})
	if err != nil {
		return rpcPair{}, err
	}
	server := rpc.NewServer(rpc.Pool(pool), rpc.MaxRecvMsgSize(maxMessage))
	pb.RegisterBenchmarkServiceServer(server, newBenchService())
	go server.Serve(l) // ends with Stop
	conn, err := rpc.NewClient("passthrough:///"+l.Addr().String(), rpc.WithPool(pool),
		rpc.WithTransportCredentials(insecure.NewCredentials()),
		rpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		server.Stop()
		return rpcPair{}, err
	}
	return rpcPair{"tarn rpc", Tarn, conn, func() {
		conn.Close()
		server.Stop()
	}}, nil
}
