package rpc_test

import (
	"context"
	"net"
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

// bundling is another balancer whose SubConns get credentials bundles.
type bundling struct {
	balancer.ClientConn
	name, of string
	bundle   func(resolver.Address) credentials.Bundle // nil: none
}

func (b bundling) Name() string { return b.name }

func (b bundling) Build(cc balancer.ClientConn, opts balancer.BuildOptions) balancer.Balancer {
	b.ClientConn = cc
	return balancer.Get(b.of).Build(b, opts)
}

func (b bundling) NewSubConn(addrs []resolver.Address, opts balancer.NewSubConnOptions) (balancer.SubConn, error) {
	opts.CredsBundle = b.bundle(addrs[0])
	return b.ClientConn.NewSubConn(addrs, opts)
}

// bundleAlways registers pick_first with a bundle for all its SubConns, and returns a service config that names it.
func bundleAlways(name string, bundle credentials.Bundle) (config string) {
	balancer.Register(bundling{name: name, of: "pick_first", bundle: func(resolver.Address) credentials.Bundle { return bundle }})
	return `{"loadBalancingConfig":[{"` + name + `":{}}]}`
}

// TestBundleOfSubConn: per-RPC credentials of the bundle that a balancer gives a SubConn are sent with its calls, in place of those of the
// client's bundle, as in grpc-go.
func TestBundleOfSubConn(t *testing.T) {
	config := bundleAlways("bundling_test", bundle{insecure.NewCredentials(), labelled("balancer")})
	sent := make(chan metadata.MD, 1)
	_, addr := startTarn(t, &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		sent <- md
		return &pb.SimpleResponse{}, nil
	}})
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

// TestBundleOfSubConnIsAskedOnce: the bundle of a SubConn is asked for its per-RPC credentials once for each connection, as in grpc-go, and not by
// calls, which are concurrent.
func TestBundleOfSubConnIsAskedOnce(t *testing.T) {
	b := countedBundle{bundle{insecure.NewCredentials(), labelled("balancer")}, new(atomic.Int32)}
	config := bundleAlways("counted_bundling_test", b)
	_, addr := startTarn(t, &testService{})
	cc := dialTarn(t, addr, rpc.WithDefaultServiceConfig(config))
	for range 3 {
		if _, err := pb.NewTestServiceClient(cc).EmptyCall(ctxFor(t), &pb.Empty{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.asked.Load(); n != 1 {
		t.Errorf("asked %d times for one connection", n)
	}
}

// handshakes are insecure credentials that count their connections.
type handshakes struct {
	credentials.TransportCredentials
	n *atomic.Int32
}

func (c handshakes) Clone() credentials.TransportCredentials { return c }

func (c handshakes) ClientHandshake(ctx context.Context, name string, nc net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c.n.Add(1)
	return c.TransportCredentials.ClientHandshake(ctx, name, nc)
}

// TestBundleWithoutTransportCredentials: a SubConn whose bundle has no transport credentials is connected with the client's, and its calls have the
// bundle's per-RPC credentials. grpc-go does the same, but for a client with a bundle of its own, whose connections have no credentials then.
func TestBundleWithoutTransportCredentials(t *testing.T) {
	config := bundleAlways("bundling_without_test", bundle{call: labelled("balancer")})
	sent := make(chan metadata.MD, 1)
	_, addr := startTarn(t, &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		sent <- md
		return &pb.SimpleResponse{}, nil
	}})
	for _, x := range []struct {
		name         string
		ours         func(credentials.TransportCredentials) rpc.DialOption
		stock        func(credentials.TransportCredentials) grpc.DialOption
		made, stocks int32 // connections with the client's credentials
	}{
		{"transport credentials", rpc.WithTransportCredentials, grpc.WithTransportCredentials, 1, 1},
		{"a bundle", func(c credentials.TransportCredentials) rpc.DialOption {
			return rpc.WithCredentialsBundle(bundle{c, labelled("client")})
		}, func(c credentials.TransportCredentials) grpc.DialOption {
			return grpc.WithCredentialsBundle(bundle{c, labelled("client")})
		}, 1, 0},
	} {
		ours, stocks := handshakes{insecure.NewCredentials(), new(atomic.Int32)}, handshakes{insecure.NewCredentials(), new(atomic.Int32)}
		cc, err := rpc.NewClient(addr, rpc.WithPool(tarntest.NewPool(t)), rpc.WithContextDialer(dialOver(t)), rpc.WithDefaultServiceConfig(config), x.ours(ours))
		if err != nil {
			t.Fatal(err)
		}
		defer cc.Close()
		stock, err := grpc.NewClient(addr, grpc.WithContextDialer(dialOver(t)), grpc.WithDefaultServiceConfig(config), x.stock(stocks))
		if err != nil {
			t.Fatal(err)
		}
		defer stock.Close()
		for name, cc := range map[string]grpc.ClientConnInterface{"tarn": cc, "grpc-go": stock} {
			if _, err := pb.NewTestServiceClient(cc).UnaryCall(ctxFor(t), &pb.SimpleRequest{}); err != nil {
				t.Errorf("%s, %s: %v", x.name, name, err)
				continue
			}
			if md := <-sent; len(md["from-balancer"]) != 1 || len(md["from-client"]) != 0 {
				t.Errorf("%s, %s: the server got %v", x.name, name, md)
			}
		}
		if ours.n.Load() != x.made || stocks.n.Load() != x.stocks {
			t.Errorf("%s: the client's credentials made %d connections, grpc-go's %d; want %d, %d", x.name, ours.n.Load(), stocks.n.Load(), x.made, x.stocks)
		}
	}
}
