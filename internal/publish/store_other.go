//go:build !amd64 || race || tarn_safe

package publish

import "sync/atomic"

// Store stores v in w, which is aligned to eight bytes, atomically.
func Store(w *uint64, v uint64) { atomic.StoreUint64(w, v) }
