package tarn

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
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
// log-linear buckets, 2^fine to a doubling, as HDR histograms do; a table gives for each bucket the
// class of its smallest length. The table is made so fine that a bucket has at most one boundary
// inside, so one comparison settles it. A ladder is immutable.
type ladder struct {
	fine    uint
	table   []uint16 // bucket → index in classes
	sizes   []int    // ascending, then math.MaxInt
	classes []*class // in step with sizes; the last is nil
}

const (
	coarsest = 5  // 32 buckets a doubling: the default ladder needs no more
	finest   = 12 // classes nearer to each other than 1/4096 share a bucket
)

// bucket is the log-linear bucket of a length ≥ 1; lengths up to 2^(fine+1) have one each.
func bucket(n int, fine uint) uint {
	x := uint(n - 1)
	e := uint(bits.Len(x >> (fine + 1)))
	return e<<fine + x>>e
}

// find returns the index of the smallest class that holds a length ≥ 1; len(classes)-1, which has
// no class, for one above the largest.
func (l *ladder) find(n int) int {
	i := bucket(n, l.fine)
	if i >= uint(len(l.table)) {
		return len(l.classes) - 1
	}
	k := int(l.table[i])
	for n > l.sizes[k] { // once at most, but for classes within 1/4096 of each other
		k++
	}
	return k
}

// newLadder builds the table for sizes, which checkClasses found good; class makes or finds the
// class of a size.
func newLadder(sizes []int, class func(size int) *class) *ladder {
	l := &ladder{fine: coarsest, sizes: append(slices.Clone(sizes), math.MaxInt)}
	for l.fine < finest && crowded(sizes, l.fine) {
		l.fine++
	}
	for _, size := range sizes {
		l.classes = append(l.classes, class(size))
	}
	l.classes = append(l.classes, nil)
	l.table = make([]uint16, bucket(sizes[len(sizes)-1], l.fine)+1)
	next := uint(0)
	for i, size := range sizes {
		for last := bucket(size, l.fine); next <= last; next++ {
			l.table[next] = uint16(i)
		}
	}
	return l
}

// crowded tells whether two boundaries fall into one bucket.
func crowded(sizes []int, fine uint) bool {
	for i := 1; i < len(sizes); i++ {
		if bucket(sizes[i-1], fine) == bucket(sizes[i], fine) {
			return true
		}
	}
	return false
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
