package tarn

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// Bounds of a ladder of size classes.
const (
	MaxClasses   = 1024    // classes in one ladder
	MaxClassSize = 1 << 30 // bytes of one class
)

// ErrClasses is matched by the errors of NewPool and SetClasses about a ladder of size classes.
// The caller is at fault.
var ErrClasses = errors.New("tarn: bad size classes")

// DefaultClasses returns the default ladder in bytes, ascending: from 64 B to 8 MiB, eight classes
// a doubling above 1 KiB, so that a length above 1 KiB wastes at most an eighth of its slab.
// From 128 KiB on each power of two is followed by one with 8 KiB more, the page in which the
// headers of a protocol put a payload of that size; below, the next class is that near anyway.
func DefaultClasses() []int {
	classes := []int{64, 128, 192, 256, 320, 384, 448, 512, 640, 768, 896, 1024}
	for base := 1 << 10; base < 8<<20; base *= 2 {
		if base >= 128<<10 {
			classes = append(classes, base+8<<10)
		}
		for i := 1; i <= 8; i++ {
			classes = append(classes, base+base/8*i)
		}
	}
	return append(classes, 8<<20+8<<10)
}

// ladder finds the smallest class that holds a length, in constant time. Lengths are put in
// log-linear buckets, 64 to a doubling, as HDR histograms do; a table gives for each bucket the step
// of its smallest length. Where a boundary lies inside a bucket one comparison settles it. A ladder
// is immutable.
type ladder struct {
	largest uint // bytes of the largest class
	table   [ladderBuckets]*step
	first   *step
}

// step is a class, with its size beside it to spare the lookup a load.
type step struct {
	size  int
	class *class
	next  *step // the next larger one
}

const (
	// ladderFine is the binary logarithm of the buckets in a doubling. Classes nearer to each
	// other than 1/64 share a bucket, and cost a comparison more each; no ladder of more than 64
	// a doubling is worth having.
	ladderFine = 6
	// ladderBuckets is the power of two that holds the buckets up to MaxClassSize.
	ladderBuckets = 32 << ladderFine
)

// bucket is the log-linear bucket of a length. A floating-point number is made of just that: an
// exponent, and what is linear within it. The processor's conversion takes a third less time than
// counting bits and shifting, and is exact for every length that a class can have. Numbers follow
// upon each other modulo ladderBuckets, and lengths 1 and 3 share one.
func bucket(n int) uint64 {
	const mantissa = 52
	return math.Float64bits(float64(n-1)) >> (mantissa - ladderFine) % ladderBuckets
}

// span is how many lengths share the bucket of n, if n is the smallest of them.
func span(n int) int { return 1 << max(bits.Len(uint(n-1))-1-ladderFine, 0) }

// within tells whether a class holds n; no class holds a length of 0 or less.
func (l *ladder) within(n int) bool { return uint(n-1) < l.largest }

// find returns the step of the smallest class that holds a length within the ladder.
func (l *ladder) find(n int) *step {
	s := l.table[bucket(n)]
	for n > s.size {
		s = s.next
	}
	return s
}

// newLadder builds the table for sizes, which checkClasses found good; class makes or finds the
// class of a size.
func newLadder(sizes []int, class func(size int) *class) *ladder {
	l := &ladder{largest: uint(sizes[len(sizes)-1])}
	link, n := &l.first, 1
	for _, size := range sizes {
		s := &step{size: size, class: class(size)}
		*link, link = s, &s.next
		for ; n <= size; n += span(n) {
			if i := bucket(n); l.table[i] == nil {
				l.table[i] = s
			}
		}
	}
	return l
}

// sizes returns a copy of the sizes of the classes.
func (l *ladder) sizes() (sizes []int) {
	for s := l.first; s != nil; s = s.next {
		sizes = append(sizes, s.size)
	}
	return sizes
}

func checkClasses(sizes []int) error {
	if len(sizes) == 0 || len(sizes) > MaxClasses {
		return fmt.Errorf("%w: %d of them; a ladder has 1 to %d", ErrClasses, len(sizes), MaxClasses)
	}
	for i, size := range sizes {
		switch {
		case size <= 0 || size > MaxClassSize:
			return fmt.Errorf("%w: class %d is %d bytes; a class is 1 to %d", ErrClasses, i, size, MaxClassSize)
		case i > 0 && size <= sizes[i-1]:
			return fmt.Errorf("%w: class %d (%d bytes) does not exceed the one before (%d bytes); sort them", ErrClasses, i, size, sizes[i-1])
		}
	}
	return nil
}
