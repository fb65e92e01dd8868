// Package zapbuffer has mistakes with zap's buffers.
package zapbuffer

import (
	"io"

	"go.uber.org/zap/buffer"
)

var pool = buffer.NewPool()

func returnsBytes() []byte {
	b := pool.Get()
	defer b.Free()
	b.AppendString("x")
	return b.Bytes() // want `escape: bytes of b are returned`
}

func afterFree(w io.Writer) {
	b := pool.Get()
	data := b.Bytes()
	b.Free()
	w.Write(data) // want `use after release: these are bytes of b`
}

func twice(failed bool) int {
	b := pool.Get()
	defer b.Free() // want `double release: b is given back`
	if failed {
		b.Free()
		return 0
	}
	return b.Len()
}

func right(w io.Writer) (string, error) {
	b := pool.Get()
	defer b.Free()
	b.AppendString("x")
	_, err := w.Write(b.Bytes())
	return b.String(), err
}
