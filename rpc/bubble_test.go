package rpc_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// pipes is a network of net.Pipes, so that a test in a synctest bubble makes no blocking system call.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { p.once.Do(func() { close(p.done) }); return nil }

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (p *pipes) dial(ctx context.Context, _ string) (net.Conn, error) {
	a, b := net.Pipe()
	select {
	case p.conns <- a:
		return b, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// dialNetwork is dial for an http.Transport.
func (p *pipes) dialNetwork(ctx context.Context, _, addr string) (net.Conn, error) {
	return p.dial(ctx, addr)
}

// inBubble runs f with a client of svc in a bubble of synctest, on checked pools.
func inBubble(t *testing.T, svc pb.TestServiceServer, opts []rpc.DialOption, f func(t *testing.T, c pb.TestServiceClient)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true))
		pb.RegisterTestServiceServer(s, svc)
		f(t, pb.NewTestServiceClient(dialPiped(t, s, opts...)))
	})
}

// servePiped serves s until the test ends, in a bubble of synctest.
func servePiped(t *testing.T, s *rpc.Server) *pipes {
	t.Helper()
	lis := newPipes()
	served := make(chan error, 1)
	go func() { served <- s.Serve(lis) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return lis
}

// dialPiped returns a client of s, which it starts, in a bubble of synctest. Both are closed when the test ends.
func dialPiped(t *testing.T, s *rpc.Server, opts ...rpc.DialOption) *rpc.ClientConn {
	t.Helper()
	cc, err := rpc.NewClient("passthrough:///svc", append([]rpc.DialOption{rpc.WithPool(tarntest.NewPool(t)),
		rpc.WithTransportCredentials(insecure.NewCredentials()), rpc.WithContextDialer(servePiped(t, s).dial)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return cc
}
