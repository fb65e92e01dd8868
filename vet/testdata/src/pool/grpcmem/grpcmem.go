// Package grpcmem has mistakes with grpc-go's buffers.
package grpcmem

import (
	"errors"
	"os"

	"google.golang.org/grpc/mem"
)

func readAfterFree(b mem.Buffer) int {
	b.Free()
	return len(b.ReadOnlyData()) // want `use after release: b was given back by Buffer.Free`
}

func viewAfterFree(b mem.Buffer) {
	data := b.ReadOnlyData()
	b.Free()
	os.Stdout.Write(data) // want `use after release: these are bytes of b`
}

func returnsView(s mem.BufferSlice, pool mem.BufferPool) []byte {
	b := s.MaterializeToBuffer(pool)
	defer b.Free()
	return b.ReadOnlyData() // want `escape: bytes of b are returned`
}

func freedTwice(s mem.BufferSlice, fail bool) error {
	defer s.Free() // want `double release: s is given back by BufferSlice.Free`
	if fail {
		s.Free()
		return errors.New("fail")
	}
	return nil
}

func putAfterNew(pool mem.BufferPool) {
	p := pool.Get(100)
	pool.Put(p)
	(*p)[0] = 1 // want `use after release`
}

func afterSplit(b mem.Buffer) (mem.Buffer, mem.Buffer) {
	left, right := mem.SplitUnsafe(b, 3)
	b.Free() // want `double release: b was given back by SplitUnsafe`
	return left, right
}

func refTwice(b mem.Buffer) []byte {
	b.Ref()
	b.Free()
	b.Free()
	return b.ReadOnlyData() // want `use after release: b was given back`
}

func right(s mem.BufferSlice) []byte {
	defer s.Free()
	return s.Materialize()
}

func shared(b mem.Buffer, to chan mem.Buffer) []byte {
	b.Ref()
	to <- b
	b.Free()
	return b.ReadOnlyData()
}

func splitRight(b mem.Buffer) int {
	left, right := mem.SplitUnsafe(b, 3)
	defer left.Free()
	defer right.Free()
	return left.Len() + right.Len()
}

func reused(s mem.BufferSlice, b mem.Buffer) mem.BufferSlice {
	s.Free()
	clear(s)
	return append(s[:0], b)
}

func fill(s *mem.BufferSlice) {}

func again(n int) {
	var s mem.BufferSlice
	for range n {
		fill(&s)
		s.Free()
		clear(s)
		s = s[:0]
	}
}
