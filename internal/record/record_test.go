package record

import (
	"math"
	"testing"
)

func TestSizeBucketsCoverTheirSizes(t *testing.T) {
	for n := 1; n <= MaxSize; n += 1 + n/500 {
		i := sizeBucket(n)
		hi := largest(uint(i))
		if n > hi || i > 0 && n <= largest(uint(i-1)) {
			t.Fatalf("%d is in bucket %d, up to %d", n, i, hi)
		}
		if hi-n > n/32 {
			t.Fatalf("bucket of %d reaches to %d", n, hi)
		}
	}
}

func TestLargeSizesAreCountedWithMaxSize(t *testing.T) {
	var r Recorder
	r.Size(math.MaxInt)
	r.Size(MaxSize)
	r.Sizes(func(size int, count, bytes uint64) {
		if size != MaxSize || count != 2 || bytes != 2*MaxSize {
			t.Errorf("%d of %d bytes", count, size)
		}
	})
}

func TestLifetimes(t *testing.T) {
	var r Recorder
	for _, n := range []uint64{0, 1, 2, 3, 4, math.MaxUint64} {
		r.Lifetime(n)
	}
	got := map[int]uint64{}
	r.Lifetimes(func(cycles int, count uint64) { got[cycles] = count })
	for cycles, want := range map[int]uint64{0: 1, 1: 1, 2: 1, 4: 2, 1 << 14: 1} {
		if got[cycles] != want {
			t.Errorf("%d lifetimes up to %d cycles, want %d", got[cycles], cycles, want)
		}
	}
}
