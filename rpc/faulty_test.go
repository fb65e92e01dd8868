package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// hang is how long a wait takes that counts as endless.
const hang = 20 * time.Second

// within fails the test, with all stacks, when f takes longer than hang.
func within(t testing.TB, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(hang):
		panic(fmt.Sprintf("%s: still waiting after %v", what, hang))
	}
}

// faulty is a server and a client with faultnet between them.
type faulty struct {
	*faultyNet
	server *rpc.Server
	client *rpc.ClientConn
	calls  pb.TestServiceClient
}

// faultyNet is a net.Listener whose connections are faultnet's.
type faultyNet struct {
	kind  faultnet.Kind
	conns chan net.Conn // for the server to accept
	done  chan struct{}
	once  sync.Once
	mu    sync.Mutex
	links []*faultnet.Link
}

func newFaulty(t testing.TB, kind faultnet.Kind, svc pb.TestServiceServer, opts ...rpc.ServerOption) *faulty {
	t.Helper()
	f := &faulty{faultyNet: newFaultyNet(kind)}
	f.server = rpc.NewServer(append([]rpc.ServerOption{rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true)}, opts...)...)
	pb.RegisterTestServiceServer(f.server, svc)
	go f.server.Serve(f)
	t.Cleanup(func() { within(t, "Stop", f.server.Stop) })
	f.client = dialTarn(t, "passthrough:///x", rpc.WithContextDialer(f.dial(t)), fastBackoff())
	t.Cleanup(func() { within(t, "Close", func() { f.client.Close() }) })
	f.calls = pb.NewTestServiceClient(f.client)
	return f
}

func newFaultyNet(kind faultnet.Kind) *faultyNet {
	return &faultyNet{kind: kind, conns: make(chan net.Conn), done: make(chan struct{})}
}

// dial makes a link, and passes the other end to the server.
func (f *faultyNet) dial(t testing.TB) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, _ string) (net.Conn, error) {
		l := faultnet.New(t, f.kind)
		select {
		case f.conns <- l.Server:
		case <-f.done:
			return nil, errors.New("the server has stopped")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		f.mu.Lock()
		f.links = append(f.links, l)
		f.mu.Unlock()
		return l.Client, nil
	}
}

// Accept implements net.Listener.
func (f *faultyNet) Accept() (net.Conn, error) {
	select {
	case nc := <-f.conns:
		return nc, nil
	case <-f.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (f *faultyNet) Close() error {
	f.once.Do(func() { close(f.done) })
	return nil
}

// Addr implements net.Listener.
func (f *faultyNet) Addr() net.Addr { return &net.TCPAddr{} }

// each calls do for every connection made so far.
func (f *faultyNet) each(do func(*faultnet.Link)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.links {
		do(l)
	}
}

// eachKind runs f over every kind of connection.
func eachKind(t *testing.T, f func(t *testing.T, kind faultnet.Kind)) {
	for _, kind := range faultnet.Kinds {
		t.Run(kind.String(), func(t *testing.T) { f(t, kind) })
	}
}

// together runs subtests that wait most of the time at once, however many processors there are: of those with t.Parallel as many run as there
// are processors.
type together struct{ running sync.WaitGroup }

func (w *together) run(t *testing.T, name string, f func(*testing.T)) {
	w.running.Go(func() { t.Run(name, f) })
}

// wait returns when all have ended.
func (w *together) wait() { w.running.Wait() }

// endings are the ways in which a connection ends.
var endings = map[string]faultnet.Ending{"FIN": faultnet.FIN, "RST": faultnet.RST}
