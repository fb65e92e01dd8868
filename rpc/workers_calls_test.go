package rpc_test

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// held is a listener whose connections return no data while its gate is closed, so that the data of that time
// is read at once afterwards.
type held struct {
	net.Listener
	gate sync.RWMutex
}

type heldConn struct {
	net.Conn
	gate *sync.RWMutex
}

func (l *held) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return heldConn{c, &l.gate}, err
}

func (c heldConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.gate.RLock() // the first bytes have arrived: the others come with them
	defer c.gate.RUnlock()
	return n, err
}

// Calls arrive together, every other of which blocks: those between are answered nevertheless, in either
// order.
func TestBlockedHandlersDelayNoOthers(t *testing.T) {
	for _, first := range []int32{0, 1} {
		t.Run(fmt.Sprint(first), func(t *testing.T) { blockedHandlers(t, first) })
	}
}

// blockedHandlers makes calls numbered from first, the odd ones of which block.
func blockedHandlers(t *testing.T, first int32) {
	release := make(chan struct{})
	s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true))
	pb.RegisterTestServiceServer(s, &testService{unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		if in.ResponseSize%2 == 1 {
			select {
			case <-release:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return &pb.SimpleResponse{}, nil
	}})
	l := &held{Listener: listen(t)}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	defer func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	c, ctx := pb.NewTestServiceClient(dialTarn(t, l.Addr().String())), ctxFor(t)
	if _, err := c.UnaryCall(ctx, &pb.SimpleRequest{}); err != nil { // connects
		t.Fatal(err)
	}
	l.gate.Lock()
	var quick, blocked, begun sync.WaitGroup
	for i := first; i < first+32; i++ {
		group := &quick
		if i%2 == 1 {
			group = &blocked
		}
		begun.Add(1)
		group.Go(func() {
			begun.Done()
			if _, err := c.UnaryCall(ctx, &pb.SimpleRequest{ResponseSize: i}); err != nil {
				t.Errorf("call %d: %v", i, err)
			}
		})
	}
	begun.Wait()
	l.gate.Unlock()
	quick.Wait()
	close(release)
	blocked.Wait()
}

// Handlers end their goroutines while further calls are queued.
func TestGoexitAmongQueuedCalls(t *testing.T) {
	_, addr := startTarn(t, &testService{unary: func(_ context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		if in.ResponseSize%2 == 1 {
			runtime.Goexit()
		}
		return &pb.SimpleResponse{}, nil
	}})
	c, ctx := pb.NewTestServiceClient(dialTarn(t, addr)), ctxFor(t)
	var wg sync.WaitGroup
	for i := range int32(64) {
		wg.Go(func() {
			_, err := c.UnaryCall(ctx, &pb.SimpleRequest{ResponseSize: i})
			if (err == nil) != (i%2 == 0) {
				t.Errorf("call %d: %v", i, err)
			}
		})
	}
	wg.Wait()
}
