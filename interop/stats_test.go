package interop

import (
	"context"
	"net"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/stats"
)

// authorities records the authorities of requests.
type authorities struct {
	stats.Handler
	seen []string
}

func (*authorities) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*authorities) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*authorities) HandleConn(context.Context, stats.ConnStats)                       {}

func (a *authorities) HandleRPC(_ context.Context, s stats.RPCStats) {
	if h, ok := s.(*stats.OutHeader); ok {
		a.seen = append(a.seen, h.Authority)
	}
}

// TestStatsHaveTheAuthority: statistics handlers see the authority of a request, which grpc-go tells them from 1.85 on: the client's, the
// option's, and the call's.
func TestStatsHaveTheAuthority(t *testing.T) {
	s := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(s, &loaded{})
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(lis)
	t.Cleanup(s.Stop)
	addr := lis.Addr().String()
	for _, authority := range []string{addr, "option.test"} {
		var theirs, ours authorities
		stock := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithStatsHandler(&theirs)}
		opts := []rpc.DialOption{rpc.WithTransportCredentials(insecure.NewCredentials()), rpc.WithStatsHandler(&ours), rpc.WithPool(tarntest.NewPool(t))}
		if authority != addr {
			stock, opts = append(stock, grpc.WithAuthority(authority)), append(opts, rpc.WithAuthority(authority))
		}
		grpcConn, err := grpc.NewClient(addr, stock...)
		if err != nil {
			t.Fatal(err)
		}
		defer grpcConn.Close()
		tarnConn, err := rpc.NewClient(addr, opts...)
		if err != nil {
			t.Fatal(err)
		}
		defer tarnConn.Close()
		for name, c := range map[string]struct {
			cc  grpc.ClientConnInterface
			log *authorities
		}{"grpc-go": {grpcConn, &theirs}, "tarn": {tarnConn, &ours}} {
			for _, opts := range [][]grpc.CallOption{nil, {grpc.CallAuthority("call.test")}} {
				if _, err := testgrpc.NewTestServiceClient(c.cc).EmptyCall(testContext(t), &testgrpc.Empty{}, opts...); err != nil {
					t.Fatal(err)
				}
			}
			if len(c.log.seen) != 2 || c.log.seen[0] != authority || c.log.seen[1] != "call.test" {
				t.Errorf("%s: %q, want %q and then call.test", name, c.log.seen, authority)
			}
		}
	}
}
