// Package mcache has mistakes with bytedance's mcache.
package mcache

import (
	"bytes"
	"io"

	"github.com/bytedance/gopkg/lang/mcache"
)

func returnsPart(r io.Reader) ([]byte, error) {
	b := mcache.Malloc(512)
	defer mcache.Free(b)
	n, err := r.Read(b)
	if err != nil {
		return nil, err
	}
	return b[:n], nil // want `escape: b is returned`
}

func afterFree(w io.Writer) {
	b := mcache.Malloc(512)
	mcache.Free(b)
	w.Write(b) // want `use after release: b was given back`
}

func twice(b []byte) {
	mcache.Free(b)
	mcache.Free(b) // want `double release: b was given back`
}

func right(r io.Reader) ([]byte, error) {
	b := mcache.Malloc(512)
	defer mcache.Free(b)
	n, err := r.Read(b)
	if err != nil {
		return nil, err
	}
	return bytes.Clone(b[:n]), nil
}
