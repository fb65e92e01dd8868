// Package yolo makes strings of pooled bytes without copying them.
package yolo

import (
	"strings"
	"sync"
	"unsafe"
)

var pool sync.Pool

func yolo(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func older(b []byte) string { return *(*string)(unsafe.Pointer(&b)) }

type labels struct{ names map[string]int }

func returned() string {
	b := pool.Get().([]byte)
	defer pool.Put(b)
	return yolo(b) // want `escape: bytes of b are returned`
}

func returnedOlder() string {
	b := pool.Get().([]byte)
	defer pool.Put(b)
	return older(b[1:]) // want `escape: bytes of b are returned`
}

func trimmed() string {
	b := pool.Get().([]byte)
	s := strings.TrimSpace(yolo(b))
	pool.Put(b)
	return s // want `escape: bytes of b are returned`
}

func (l *labels) intern() {
	b := pool.Get().([]byte)
	l.names[yolo(b)] = 1 // want `escape: b, or bytes of it, is stored in a map`
	pool.Put(b)
}

func compared(s string) bool {
	b := pool.Get().([]byte)
	name := yolo(b)
	pool.Put(b)
	return name == s // want `use after release: these are bytes of b`
}

func right() string {
	b := pool.Get().([]byte)
	defer pool.Put(b)
	return strings.Clone(yolo(b))
}

func looked(m map[string]int) int {
	b := pool.Get().([]byte)
	defer pool.Put(b)
	return m[yolo(b)]
}
