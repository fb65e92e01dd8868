// Package own has mistakes with a pool that its .tarnvet.yaml describes.
package own

import "example.com/bufs"

func used() int {
	b := bufs.Get(10)
	b.Release()
	return b.Len() // want `use after release: b was given back by Buf.Release`
}

func twice() {
	b := bufs.Get(10)
	defer b.Release() // want `double release: b is given back by Buf.Release`
	b.Release()
}

func returned() []byte {
	b := bufs.Get(10)
	defer b.Release()
	return b.Bytes() // want `escape: bytes of b are returned`
}

func right(to chan *bufs.Buf) int {
	b := bufs.Get(10)
	b.Hold()
	to <- b
	n := b.Len()
	b.Release()
	return n
}
