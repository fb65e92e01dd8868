//go:build !amd64 || race || tarn_safe

package publish

import "sync/atomic"

// Store stores v in w atomically.
func Store(w *atomic.Uint64, v uint64) { w.Store(v) }
