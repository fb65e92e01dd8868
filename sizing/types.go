package sizing

import (
	"math/bits"

	"github.com/tarn-go/tarn"
)

// Histogram is a pool's record of what it was asked for. Sizes are exact, or the upper edges of
// buckets; a Histogram made by hand may leave everything else out.
type Histogram = tarn.Histogram

// SizeCount is how many requests were for Size bytes, or for no more than that and more than the
// bucket below, and how many bytes they asked for together.
type SizeCount = tarn.SizeCount

// newSizeCount leaves Bytes out where they are not below Count times Size.
func newSizeCount(size int, count, bytes uint64) SizeCount {
	if most := mulSat(count, uint64(size)); bytes >= most {
		bytes = 0
	}
	return SizeCount{Size: size, Count: count, Bytes: bytes}
}

// requested returns how many bytes the requests of s asked for.
func requested(s SizeCount) uint64 {
	if s.Bytes == 0 {
		return mulSat(s.Count, uint64(s.Size))
	}
	return s.Bytes
}

// requestedOf returns how many bytes count of the requests of s asked for, on average.
func requestedOf(s SizeCount, count uint64) uint64 {
	hi, lo := bits.Mul64(requested(s), count)
	if hi >= s.Count {
		return mulSat(count, uint64(s.Size))
	}
	bytes, _ := bits.Div64(hi, lo, s.Count)
	return min(bytes, mulSat(count, uint64(s.Size)))
}

// LifeCount is how many buffers lived for some garbage collections.
type LifeCount = tarn.LifeCount
