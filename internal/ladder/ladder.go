// Package ladder finds the size class of a length in constant time.
package ladder

import (
	"math"
	"math/bits"
)

// MaxSize is the largest size of a class in bytes.
const MaxSize = 1 << 30

// Ladder maps lengths to the smallest of its sizes that holds them. Lengths are put in log-linear
// buckets, 64 to a doubling, as HDR histograms do; a table gives for each bucket the step of its
// smallest length. Where a boundary lies inside a bucket, one comparison decides. A Ladder is
// immutable and safe for concurrent use.
type Ladder[T any] struct {
	largest uint // bytes of the largest class
	table   [buckets]*Step[T]
	first   *Step[T]
}

// Step is one size and what belongs to it. The size lies beside the class to save the lookup a load.
type Step[T any] struct {
	Size  int
	Class T
	next  *Step[T] // the next larger one
}

const (
	// fine is the binary logarithm of the number of buckets in a doubling. Classes closer than 1/64
	// share a bucket, which costs a comparison each.
	fine = 6
	// buckets is the power of two that holds the buckets of all lengths up to MaxSize.
	buckets = 32 << fine
)

// The bucket of MaxSize must not share the table's entry of a smaller power of two: exponents 0 to
// 30 have to fit.
const _ = uint(buckets - 31<<fine)

// bucket is the log-linear bucket of a length. The upper bits of a floating-point number are an
// exponent and a linear position within it, which is such a bucket already. The processor's
// conversion takes a third less time than counting bits and shifting, and is exact for every length
// that a class can have. Buckets are numbered modulo the table's length; lengths 1 and 3 share one.
func bucket(n int) uint64 {
	const mantissa = 52
	return math.Float64bits(float64(n-1)) >> (mantissa - fine) % buckets
}

// span is how many lengths share the bucket of n, if n is the smallest of them.
func span(n int) int { return 1 << max(bits.Len(uint(n-1))-1-fine, 0) }

// New builds a ladder of sizes in bytes, ascending, each from 1 to MaxSize; class gives the class of
// a size.
func New[T any](sizes []int, class func(size int) T) *Ladder[T] {
	l := &Ladder[T]{largest: uint(sizes[len(sizes)-1])}
	link, n := &l.first, 1
	for _, size := range sizes {
		s := &Step[T]{Size: size, Class: class(size)}
		*link, link = s, &s.next
		for ; n <= size; n += span(n) {
			if i := bucket(n); l.table[i] == nil {
				l.table[i] = s
			}
		}
	}
	return l
}

// Within reports whether a class holds n bytes; no class holds 0 bytes or less.
func (l *Ladder[T]) Within(n int) bool { return uint(n-1) < l.largest }

// Find returns the step of the smallest class that holds n bytes, which must be Within the ladder.
func (l *Ladder[T]) Find(n int) *Step[T] {
	s := l.table[bucket(n)]
	for n > s.Size {
		s = s.next
	}
	return s
}

// Sizes returns a copy of the sizes of the classes, ascending.
func (l *Ladder[T]) Sizes() (sizes []int) {
	for s := l.first; s != nil; s = s.next {
		sizes = append(sizes, s.Size)
	}
	return sizes
}
