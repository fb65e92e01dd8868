package rpc_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
)

// labelled are per-RPC credentials of a name.
type labelled string

func (n labelled) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"from-" + string(n): "1"}, nil
}
func (labelled) RequireTransportSecurity() bool { return false }

// bundling is pick_first with a credentials bundle for its SubConns.
type bundling struct {
	balancer.ClientConn
	name string
}

func (b bundling) Name() string { return b.name }

func (b bundling) Build(cc balancer.ClientConn, opts balancer.BuildOptions) balancer.Balancer {
	return balancer.Get("pick_first").Build(bundling{ClientConn: cc}, opts)
}

func (b bundling) NewSubConn(addrs []resolver.Address, opts balancer.NewSubConnOptions) (balancer.SubConn, error) {
	opts.CredsBundle = bundle{insecure.NewCredentials(), labelled("balancer")}
	return b.ClientConn.NewSubConn(addrs, opts)
}

// TestBundleOfSubConn: per-RPC credentials of the bundle that a balancer gives a SubConn are sent with its calls, in place of those of the
// client's bundle, as in grpc-go.
func TestBundleOfSubConn(t *testing.T) {
	balancer.Register(bundling{name: "bundling_test"})
	sent := make(chan metadata.MD, 1)
	_, addr := startTarn(t, &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		sent <- md
		return &pb.SimpleResponse{}, nil
	}})
	const config = `{"loadBalancingConfig":[{"bundling_test":{}}]}`
	b := bundle{insecure.NewCredentials(), labelled("client")}
	cc, err := rpc.NewClient(addr, rpc.WithPool(tarntest.NewPool(t)), rpc.WithContextDialer(dialOver(t)), rpc.WithCredentialsBundle(b),
		rpc.WithPerRPCCredentials(labelled("option")), rpc.WithDefaultServiceConfig(config))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	stock, err := grpc.NewClient(addr, grpc.WithContextDialer(dialOver(t)), grpc.WithCredentialsBundle(b),
		grpc.WithPerRPCCredentials(labelled("option")), grpc.WithDefaultServiceConfig(config))
	if err != nil {
		t.Fatal(err)
	}
	defer stock.Close()
	for name, cc := range map[string]grpc.ClientConnInterface{"tarn": cc, "grpc-go": stock} {
		if _, err := pb.NewTestServiceClient(cc).UnaryCall(ctxFor(t), &pb.SimpleRequest{}); err != nil {
			t.Fatal(name, err)
		}
		var from []string
		for k := range <-sent {
			if name, ok := strings.CutPrefix(k, "from-"); ok {
				from = append(from, name)
			}
		}
		if slices.Sort(from); !slices.Equal(from, []string{"balancer", "option"}) {
			t.Errorf("%s: credentials of %v", name, from)
		}
	}
}

// countedBundle counts the calls of PerRPCCredentials.
type countedBundle struct {
	bundle
	asked *atomic.Int32
}

func (b countedBundle) PerRPCCredentials() credentials.PerRPCCredentials {
	b.asked.Add(1)
	return b.call
}

// countedBundling is bundling with one that counts.
type countedBundling struct {
	balancer.ClientConn
	name string
	b    countedBundle
}

func (b countedBundling) Name() string { return b.name }

func (b countedBundling) Build(cc balancer.ClientConn, opts balancer.BuildOptions) balancer.Balancer {
	return balancer.Get("pick_first").Build(countedBundling{ClientConn: cc, b: b.b}, opts)
}

func (b countedBundling) NewSubConn(addrs []resolver.Address, opts balancer.NewSubConnOptions) (balancer.SubConn, error) {
	opts.CredsBundle = b.b
	return b.ClientConn.NewSubConn(addrs, opts)
}

// TestBundleOfSubConnIsAskedOnce: the bundle of a SubConn is asked for its per-RPC credentials once for each connection, as in grpc-go, and not by
// calls, which are concurrent.
func TestBundleOfSubConnIsAskedOnce(t *testing.T) {
	b := countedBundle{bundle{insecure.NewCredentials(), labelled("balancer")}, new(atomic.Int32)}
	balancer.Register(countedBundling{name: "counted_bundling_test", b: b})
	_, addr := startTarn(t, &testService{})
	cc := dialTarn(t, addr, rpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"counted_bundling_test":{}}]}`))
	for range 3 {
		if _, err := pb.NewTestServiceClient(cc).EmptyCall(ctxFor(t), &pb.Empty{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.asked.Load(); n != 1 {
		t.Errorf("asked %d times for one connection", n)
	}
}
