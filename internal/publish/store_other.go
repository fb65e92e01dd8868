//go:build !amd64 || race || tarn_safe

package publish

import "sync/atomic"

// Release stores v in w with release ordering or stronger.
func Release(w *atomic.Uint64, v uint64) { w.Store(v) }
