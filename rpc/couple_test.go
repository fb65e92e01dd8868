package rpc_test

import (
	"net"
	"testing"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/keepalive"
)

// couple is a client and a server with faultnet between them, each Tarn's or grpc-go's.
type couple struct {
	*faultyNet
	server interface {
		grpc.ServiceRegistrar
		Serve(net.Listener) error
		Stop()
		GracefulStop()
	}
	calls pb.TestServiceClient
}

// makers says whose client and server a couple has.
type makers struct{ client, server implementation }

type implementation string

const (
	ofTarn implementation = "tarn"
	ofGRPC implementation = "grpc"
)

func (m makers) String() string { return string(m.client + "-" + m.server) }

// allMakers are those of grpc-go on both sides, which the others are compared with, and all others.
var allMakers = []makers{{ofGRPC, ofGRPC}, {ofGRPC, ofTarn}, {ofTarn, ofGRPC}, {ofTarn, ofTarn}}

// settings are what a couple is made with.
type settings struct {
	pings  keepalive.ClientParameters
	params keepalive.ServerParameters
	policy keepalive.EnforcementPolicy
	creds  credentials.TransportCredentials // the server's; nil: none
	window int32                            // the client's windows, of streams and of the connection; 0: the defaults
}

// newCouple starts both sides. The client has no connection yet. Both have ended when the test has.
func newCouple(t testing.TB, kind faultnet.Kind, m makers, svc pb.TestServiceServer, s settings) *couple {
	t.Helper()
	c := &couple{faultyNet: newFaultyNet(kind)}
	if m.server == ofTarn {
		c.server = rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true), rpc.KeepaliveParams(s.params), rpc.KeepaliveEnforcementPolicy(s.policy), rpc.Creds(s.creds))
	} else {
		c.server = grpc.NewServer(grpc.WaitForHandlers(true), grpc.KeepaliveParams(s.params), grpc.KeepaliveEnforcementPolicy(s.policy), grpc.Creds(s.creds))
	}
	pb.RegisterTestServiceServer(c.server, svc)
	served := make(chan struct{})
	go func() {
		defer close(served)
		c.server.Serve(c) // its error is that of Accept, or none
	}()
	t.Cleanup(func() {
		c.server.Stop()
		<-served
	})
	if m.client == ofTarn {
		opts := []rpc.DialOption{rpc.WithContextDialer(c.dial(t)), rpc.WithIdleTimeout(0)}
		if s.pings != (keepalive.ClientParameters{}) {
			opts = append(opts, rpc.WithKeepaliveParams(s.pings))
		}
		if s.window > 0 {
			opts = append(opts, rpc.WithInitialWindowSize(s.window), rpc.WithInitialConnWindowSize(s.window))
		}
		c.calls = pb.NewTestServiceClient(dialTarn(t, "passthrough:///x", opts...))
		return c
	}
	opts := []grpc.DialOption{grpc.WithContextDialer(c.dial(t)), grpc.WithIdleTimeout(0), grpc.WithTransportCredentials(insecure.NewCredentials())}
	if s.pings != (keepalive.ClientParameters{}) {
		opts = append(opts, grpc.WithKeepaliveParams(s.pings))
	}
	if s.window > 0 {
		opts = append(opts, grpc.WithInitialWindowSize(s.window), grpc.WithInitialConnWindowSize(s.window))
	}
	cc, err := grpc.NewClient("passthrough:///x", opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	c.calls = pb.NewTestServiceClient(cc)
	return c
}
