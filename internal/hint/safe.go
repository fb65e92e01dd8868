//go:build tarn_safe

package hint

import "math/rand/v2"

// Goroutine returns a random number: it spreads, without keeping a goroutine to its shard.
func Goroutine() uint32 { return rand.Uint32() }
