package main

import (
	"runtime/debug"
	"testing"

	"github.com/tarn-go/tarn"
)

// TestHandle: one request in a hundred leaks.
func TestHandle(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a buffer that the collector finds is counted when it is finalized
	pool, err := tarn.NewPool(tarn.PoolConfig{Name: "leaky"})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{pool: pool, pending: make(map[int]*request)}
	for n := range 200 {
		s.receive(n)
		s.handle(n)
	}
	if n := pool.Stats().InUseBuffers; n != 2 {
		t.Errorf("%d buffers are outstanding, not 2", n)
	}
}
