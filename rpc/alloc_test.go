package rpc_test

import (
	"context"
	"io"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
)

// maxUnaryAllocs bounds the allocations of a unary call, of both sides and of the messages themselves: the 10
// that are measured, and one. (grpc-go: about 147.)
const maxUnaryAllocs = 11

// maxUnaryBytes bounds their length: the 1,202 bytes that are measured, and a third. The client's call, which is longer than that third, is
// not among them.
const maxUnaryBytes = 1600

// maxLargeAllocs is the same for 1 MiB: the 16 that are measured without garbage collections, and two.
const maxLargeAllocs = 18

// maxStreamAllocs bounds those of a call with one response that is made as libraries make it, with metadata, a context that can be
// cancelled, and its header and trailer read: the 33 that are measured, and one.
const maxStreamAllocs = 34

// uncheckedService is a client of a server that echoes, both on the shared pool: the checks of a test's pool
// allocate.
func uncheckedService(t *testing.T) pb.TestServiceClient {
	return pb.NewTestServiceClient(uncheckedClient(t))
}

func uncheckedClient(t *testing.T) *rpc.ClientConn {
	s := rpc.NewServer()
	pb.RegisterTestServiceServer(s, &testService{})
	cc, err := rpc.NewClient(serve(t, s), rpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return cc
}

// TestUnaryAllocations bounds the allocations of a unary call. Under the race detector sync.Pool drops
// objects at random, so the limit is looser.
func TestUnaryAllocations(t *testing.T) {
	faultnet.NeedsTCP(t, "the relay allocates")
	c := uncheckedService(t)
	req := &pb.SimpleRequest{Payload: payload(100)}
	ctx := context.Background()
	call := func() {
		if _, err := c.UnaryCall(ctx, req); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		call()
	}
	bar := float64(maxUnaryAllocs * raceFactor)
	if n := testing.AllocsPerRun(500, call); n > bar {
		t.Errorf("%v allocations a unary call, want at most %v", n, bar)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 500 {
		call()
	}
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) / 500; n > maxUnaryBytes*raceFactor {
		t.Errorf("a unary call allocates %d bytes, want at most %d", n, maxUnaryBytes*raceFactor)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if n := testing.AllocsPerRun(500, call); n > bar {
		t.Errorf("%v allocations a unary call that can be cancelled, want at most %v", n, bar)
	}
}

// leastAllocs is how many allocations a call makes, on average of runs calls, in the one of ten such measurements with the fewest. Those of the whole process are
// counted. On a busy machine a process may stand still for seconds: then a connection gives up its memory as one does that is idle, for about 150 allocations
// at the next call, and a pool its slabs.
func leastAllocs(runs int, call func()) float64 {
	least := testing.AllocsPerRun(runs, call)
	for range 9 {
		least = min(least, testing.AllocsPerRun(runs, call))
	}
	return least
}

// A call of 1 MiB, whose bytes field is received and sent without a copy, may allocate little more than a
// short one.
func TestLargeUnaryAllocations(t *testing.T) {
	faultnet.NeedsTCP(t, "the relay allocates")
	c := uncheckedService(t)
	req := &pb.SimpleRequest{ResponseSize: 1 << 20, Payload: payload(1 << 20)}
	call := func() {
		if _, err := c.UnaryCall(context.Background(), req); err != nil {
			t.Fatal(err)
		}
	}
	// A collection empties the sync.Pools that calls use, and how many there would be depends on what earlier tests have left. The calls
	// allocate about 150 MB.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for range 20 {
		call()
	}
	if n := leastAllocs(5, call); n > maxLargeAllocs*raceFactor {
		t.Errorf("%v allocations a call of 1 MiB, want at most %v", n, maxLargeAllocs*raceFactor)
	}
}

// TestServerStreamAllocations bounds the allocations of a call with one response through AsGRPC, both ends.
func TestServerStreamAllocations(t *testing.T) {
	faultnet.NeedsTCP(t, "the relay allocates")
	c := pb.NewTestServiceClient(rpc.AsGRPC(uncheckedClient(t)))
	req := &pb.StreamingOutputCallRequest{ResponseParameters: []*pb.ResponseParameters{{Size: 100}}}
	with := metadata.NewOutgoingContext(context.Background(), metadata.Pairs("project", "p", "table", "t", "feature", "f"))
	call := func() {
		ctx, cancel := context.WithCancel(with)
		defer cancel()
		s, err := c.StreamingOutputCall(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		if h, err := s.Header(); err != nil || h == nil {
			t.Fatal(h, err)
		}
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != io.EOF {
			t.Fatal(err)
		}
		if s.Trailer() == nil {
			t.Fatal("no trailer")
		}
	}
	for range 100 {
		call()
	}
	if n := leastAllocs(50, call); n > maxStreamAllocs*raceFactor {
		t.Errorf("%v allocations a call, want at most %v", n, maxStreamAllocs*raceFactor)
	}
}
