//go:build amd64 && !race && !tarn_safe

package publish

import "sync/atomic"

// Release stores v in w with release ordering.
//
// It is right where the caller is the only writer of w. Proof for amd64: an aligned eight-byte
// move is atomic, stores of one processor become visible in program order (Intel SDM 3A, 8.2.2),
// and the compiler does not move memory accesses across a call to assembly. Concurrent readers
// use atomic loads and see the old word or the new one. The race detector does not see into
// assembly, so its builds, and those tagged tarn_safe, use sync/atomic instead.
//
//go:noescape
func Release(w *atomic.Uint64, v uint64)
