package interop

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/testcert"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

// failures makes a fatal log message of the suite, which would end the process,
// a panic that ends one test.
type failures struct{ grpclog.LoggerV2 }

func (f failures) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
func (f failures) Fatalln(args ...any)               { panic(fmt.Sprint(args...)) }
func (f failures) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func TestMain(m *testing.M) {
	grpclog.SetLoggerV2(failures{grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)})
	os.Exit(m.Run())
}

// security is one way to protect a connection.
type security struct {
	name   string
	server credentials.TransportCredentials // nil: none
	client credentials.TransportCredentials
}

func securities(t *testing.T) []security {
	t.Helper()
	cert, roots := testcert.New(t)
	return []security{
		{"plaintext", nil, insecure.NewCredentials()},
		{"tls", credentials.NewServerTLSFromCert(&cert),
			credentials.NewClientTLSFromCert(roots, testcert.Name)},
	}
}

// client is a connection of either implementation.
type client interface {
	grpc.ClientConnInterface
	Close() error
}

type dialer func(t *testing.T, addr string, s security) client

func dialTarn(t *testing.T, addr string, s security) client {
	t.Helper()
	cc, err := rpc.NewClient(addr, rpc.WithPool(tarntest.NewPool(t)), rpc.WithTransportCredentials(s.client))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return cc
}

func dialGRPC(t *testing.T, addr string, s security) client {
	t.Helper()
	cc, err := grpc.NewClient(addr, grpc.WithTransportCredentials(s.client))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return cc
}

type server interface {
	grpc.ServiceRegistrar
	Serve(net.Listener) error
	Stop()
}

type maker func(t *testing.T, s security) server

func makeTarn(t *testing.T, s security) server {
	opts := []rpc.ServerOption{rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true)}
	if s.server != nil {
		opts = append(opts, rpc.Creds(s.server))
	}
	return rpc.NewServer(opts...)
}

func makeGRPC(_ *testing.T, s security) server {
	opts := []grpc.ServerOption{grpc.WaitForHandlers(true)}
	if s.server != nil {
		opts = append(opts, grpc.Creds(s.server))
	}
	return grpc.NewServer(opts...)
}

// start serves the suite's own test service on loopback.
func start(t *testing.T, s server) string {
	t.Helper()
	testgrpc.RegisterTestServiceServer(s, interop.NewTestServer())
	return serve(t, s)
}

func serve(t *testing.T, s server) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(lis) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return lis.Addr().String()
}

// pairings is every combination with Tarn in it.
func pairings() []struct {
	name string
	dial dialer
	make maker
} {
	return []struct {
		name string
		dial dialer
		make maker
	}{
		{"tarn-grpc", dialTarn, makeGRPC},
		{"grpc-tarn", dialGRPC, makeTarn},
		{"tarn-tarn", dialTarn, makeTarn},
	}
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}
