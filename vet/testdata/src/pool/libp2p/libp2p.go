// Package libp2p has mistakes with libp2p's buffer pool.
package libp2p

import (
	"io"

	pool "github.com/libp2p/go-buffer-pool"
)

func returned(r io.Reader) ([]byte, error) {
	b := pool.Get(100)
	defer pool.Put(b)
	n, err := r.Read(b)
	return b[:n], err // want `escape: b is returned, but it was given back by Put`
}

func written(w io.Writer) {
	b := pool.Get(100)
	pool.Put(b)
	w.Write(b[:3]) // want `use after release: b was given back by Put`
}

func twice(p *pool.BufferPool) {
	b := p.Get(10)
	p.Put(b)
	p.Put(b[:0]) // want `double release: b was given back`
}

func indexed() byte {
	b := pool.Get(10)
	pool.Put(b)
	return b[0] // want `use after release: b was given back`
}

func right(r io.Reader) (string, error) {
	b := pool.Get(100)
	defer pool.Put(b)
	n, err := r.Read(b)
	return string(b[:n]), err
}
