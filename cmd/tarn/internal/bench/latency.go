package bench

import (
	"math/bits"
	"time"
)

// latencies is a histogram of durations, exact to one part in 16, that never allocates. One goroutine
// writes it at a time.
type latencies struct {
	counts [64 * 16]uint64
	n      uint64
}

// bucket returns the bucket of d: 16 of them to each power of two.
func bucket(d time.Duration) int {
	v := uint64(max(d, 0))
	if v < 16 {
		return int(v)
	}
	exp := bits.Len64(v) - 5 // bits below the leading five
	return (exp+1)*16 + int(v>>exp)&15
}

// upper returns the largest duration that falls into bucket i.
func upper(i int) time.Duration {
	if i < 16 {
		return time.Duration(i)
	}
	exp := i/16 - 1
	return time.Duration((uint64(i%16+17) << exp) - 1)
}

func (l *latencies) add(d time.Duration) {
	l.counts[bucket(d)]++
	l.n++
}

func (l *latencies) merge(o *latencies) {
	for i, c := range o.counts {
		l.counts[i] += c
	}
	l.n += o.n
}

// quantile returns a duration that the fraction q of those added do not exceed; 0 if there are none.
func (l *latencies) quantile(q float64) time.Duration {
	if l.n == 0 {
		return 0
	}
	rank := uint64(q * float64(l.n-1))
	var seen uint64
	for i, c := range l.counts {
		if seen += c; seen > rank {
			return upper(i)
		}
	}
	return 0
}
