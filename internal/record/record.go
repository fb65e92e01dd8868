// Package record counts sampled sizes and lifetimes in log-linear histograms of fixed size.
package record

import (
	"math/bits"
	"sync/atomic"
)

// Bounds of what is distinguished.
const (
	MaxSize         = 1 << 30             // larger sizes are counted with it
	fine            = 5                   // 32 buckets a doubling
	sizeBuckets     = (31 - fine) << fine // up to MaxSize
	lifetimeBuckets = 16                  // 0, 1, 2, 3–4, 5–8, … GC cycles
)

// Recorder counts sizes and lifetimes. It is fixed memory, never allocates, and is safe for
// concurrent use. The zero Recorder is ready.
type Recorder struct {
	sizes     [sizeBuckets]atomic.Uint64
	bytes     [sizeBuckets]atomic.Uint64 // sums of the sizes, so that waste is exact within a bucket
	lifetimes [lifetimeBuckets]atomic.Uint64
}

// Size counts a size of n ≥ 1 bytes.
func (r *Recorder) Size(n int) {
	n = min(n, MaxSize)
	i := sizeBucket(n)
	r.sizes[i].Add(1)
	r.bytes[i].Add(uint64(n))
}

// sizeBucket is the log-linear bucket of a size up to MaxSize; buckets are numbered from 0, and sizes
// up to 2<<fine have one each.
func sizeBucket(n int) int {
	e := max(bits.Len(uint(n-1))-1-fine, 0)
	return e<<fine + (n-1)>>e
}

// largest is the largest size in a bucket.
func largest(i uint) int {
	e := uint(0)
	if i >= 2<<fine {
		e = i>>fine - 1
	}
	return int(((i - e<<fine) + 1) << e)
}

// Lifetime counts a lifetime in GC cycles.
func (r *Recorder) Lifetime(cycles uint64) {
	k := 0
	if cycles > 0 {
		k = 1 + bits.Len64(cycles-1)
	}
	r.lifetimes[min(k, lifetimeBuckets-1)].Add(1)
}

// Sizes calls each for every bucket that is not empty, ascending, with its largest size, the number of
// sizes in it and their sum.
func (r *Recorder) Sizes(each func(size int, count, bytes uint64)) {
	for i := range r.sizes {
		if n := r.sizes[i].Load(); n > 0 {
			// The two counters are read one after the other, so a Size between them counts in one alone.
			size := largest(uint(i))
			each(size, n, min(r.bytes[i].Load(), n*uint64(size)))
		}
	}
}

// Lifetimes calls each for every bucket that is not empty, with its longest lifetime, ascending.
func (r *Recorder) Lifetimes(each func(cycles int, count uint64)) {
	for k := range r.lifetimes {
		if n := r.lifetimes[k].Load(); n > 0 {
			each(1<<k>>1, n)
		}
	}
}
