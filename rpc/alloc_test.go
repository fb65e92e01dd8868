package rpc_test

import (
	"context"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// maxUnaryAllocs is what a unary call may allocate, on both sides together and with the
// messages' own: the 11 that are measured, and one. (grpc-go: about 147.)
const maxUnaryAllocs = 12

// TestUnaryAllocations holds a unary call to its bar. The race detector makes
// pools forget, so there the bar is looser.
func TestUnaryAllocations(t *testing.T) {
	s := rpc.NewServer()
	pb.RegisterTestServiceServer(s, &testService{})
	cc, err := rpc.NewClient(serve(t, s), rpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	c := pb.NewTestServiceClient(cc)
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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if n := testing.AllocsPerRun(500, call); n > bar {
		t.Errorf("%v allocations a unary call that can be cancelled, want at most %v", n, bar)
	}
}
