package bench

import (
	"net/http/httputil"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/tarn-go/tarn/adapt"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc/mem"
)

// Package adapt may not import the modules whose interfaces it implements; this test module checks that it does.
var (
	_ mem.BufferPool      = (*adapt.GRPCPool)(nil)
	_ httputil.BufferPool = (*adapt.HTTPUtilPool)(nil)
	_ memory.Allocator    = (*adapt.ArrowAllocator)(nil)
)

// TestAdaptInGRPC has grpc-go's buffers hold Tarn's memory: every reference is freed.
func TestAdaptInGRPC(t *testing.T) {
	pool := adapt.GRPC(tarntest.NewPool(t))
	for _, n := range []int{1, 1024, 1025, 100_000} {
		buf := mem.NewBuffer(pool.Get(n), pool)
		part := buf.Slice(0, 1)
		buf.Ref()
		buf.Free()
		head, tail := mem.SplitUnsafe(buf, n/2)
		head.Free()
		tail.Free()
		part.Free()
		mem.Copy(make([]byte, n), pool).Free()
	}
	var s mem.BufferSlice
	w := mem.NewWriter(&s, pool)
	w.Write(make([]byte, 5000))
	w.Write(make([]byte, 50000))
	s.MaterializeToBuffer(pool).Free()
	s.Free()
}

// TestAdaptInArrow has an Arrow buffer grow and shrink in Tarn's memory.
func TestAdaptInArrow(t *testing.T) {
	a := adapt.Arrow(tarntest.NewPool(t))
	b := memory.NewResizableBuffer(a)
	for _, n := range []int{10, 10_000, 100, 0, 1 << 20} {
		b.Resize(n)
		if b.Len() != n {
			t.Fatalf("%d bytes, want %d", b.Len(), n)
		}
	}
	b.Release()
}
