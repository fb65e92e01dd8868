package rpc_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"

	pb "google.golang.org/grpc/interop/grpc_testing"
)

// TestFloodOfCalls sends many complete requests at once. The reading goroutine
// holds back while handlers start, so that there are no more goroutines than
// handlers at work and some that start.
func TestFloodOfCalls(t *testing.T) {
	var most atomic.Int32
	svc := &testService{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		n := int32(runtime.NumGoroutine())
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		return &pb.SimpleResponse{}, nil
	}}
	before := runtime.NumGoroutine()
	_, addr := startTarn(t, svc)
	p := rawClient(t, addr)
	go func() { // take the answers in, so that they do not wait
		for {
			if _, err := p.fr.ReadFrame(); err != nil {
				return
			}
		}
	}()
	for range 3000 {
		id := p.open(false)
		if err := p.fr.WriteData(id, true, prefixed(0, nil)); err != nil {
			t.Fatal(err)
		}
	}
	id := p.open(false)
	p.fr.WriteData(id, true, prefixed(0, nil))
	const starting = 128 // of h2, by default
	if n := int(most.Load()) - before; n > 2*starting+50 {
		t.Errorf("%d goroutines for calls that end at once", n)
	}
}
