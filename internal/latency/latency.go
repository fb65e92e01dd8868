// Package latency counts durations in log-scaled histograms of fixed memory, from which come quantiles of all of them and of those of the
// last minute. Servers and clients have one for each method or route.
package latency

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarn-go/tarn/debug/endpoint"
	"github.com/tarn-go/tarn/internal/monotonic"
)

const (
	// buckets is how many there are: four to each doubling, from 1 µs to 36 minutes, and four below. The first bucket has what is
	// shorter, the last one what is longer.
	buckets = 128
	// unitBits is the binary logarithm of the width of the first buckets, in nanoseconds.
	unitBits = 8
	// period is after how long what came before is marked off, and periods how many of them a minute has.
	period  = 10 * time.Second
	periods = int64(time.Minute / period)
)

// Histogram counts durations. It takes 4.6 KiB, whatever it counts; the zero Histogram is ready to use, and must not be copied. Its methods
// are safe for concurrent use and allocate nothing.
type Histogram struct {
	next   atomic.Int64 // when the next period begins, as an Instant
	sum    atomic.Int64 // nanoseconds
	counts [buckets]atomic.Uint64

	mu sync.Mutex
	// before is what counts was when each of the last periods began, by the number of the period. Of the counts these are the lower
	// 32 bits, which is enough for differences.
	before [periods + 1][buckets]uint32
	newest int64 // the number of the last period of them
}

// Add counts d, of something that ended now: now is monotonic.Now, or the time of a moment before. It waits for nothing.
func (h *Histogram) Add(d time.Duration, now monotonic.Instant) {
	if int64(now) >= h.next.Load() && h.mu.TryLock() { // otherwise another goroutine does it
		h.markOff(now)
		h.mu.Unlock()
	}
	h.counts[bucket(d)].Add(1)
	h.sum.Add(int64(d))
}

// markOff notes what has been counted before the period of now, and before those since the last call, in which nothing was. h.mu is held.
func (h *Histogram) markOff(now monotonic.Instant) {
	current := int64(now) / int64(period)
	if current <= h.newest {
		return
	}
	for p := max(h.newest+1, current-periods); p <= current; p++ {
		before := &h.before[p%int64(len(h.before))]
		for i := range before {
			before[i] = uint32(h.counts[i].Load())
		}
	}
	h.newest = current
	h.next.Store((current + 1) * int64(period))
}

// Sum returns all durations added up.
func (h *Histogram) Sum() time.Duration { return time.Duration(h.sum.Load()) }

// All returns the counts of all durations.
func (h *Histogram) All() *Counts {
	c := new(Counts)
	for i := range c {
		c[i] = h.counts[i].Load()
	}
	return c
}

// LastMinute returns the counts of the durations that were added in the 60 to 70 seconds before now.
func (h *Histogram) LastMinute(now monotonic.Instant) *Counts {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.markOff(now)
	c := h.All()
	before := &h.before[max(h.newest-periods, 0)%int64(len(h.before))]
	for i := range c {
		c[i] = uint64(uint32(c[i]) - before[i])
	}
	return c
}

// Counts is how many durations fell into each bucket.
type Counts [buckets]uint64

// Add adds o to c.
func (c *Counts) Add(o *Counts) {
	for i, n := range o {
		c[i] += n
	}
}

// Total is how many there are.
func (c *Counts) Total() uint64 {
	n := uint64(0)
	for _, m := range c {
		n += m
	}
	return n
}

// Report fills in the durations of a method's calls: all, those of the minute before now, and the slowest of these.
func Report(m *endpoint.Method, all, lastMinute *Counts, slowest *Slowest, now monotonic.Instant) {
	if took, trace := slowest.LastMinute(now); took > 0 {
		m.Slowest = &endpoint.Slow{Seconds: took.Seconds(), Trace: trace}
	}
	m.P50, m.P99 = all.Quantile(0.5).Seconds(), all.Quantile(0.99).Seconds()
	m.Minute = endpoint.Recent{Ended: lastMinute.Total(), P50: lastMinute.Quantile(0.5).Seconds(), P99: lastMinute.Quantile(0.99).Seconds()}
	under, next := uint64(0), 0
	for _, bound := range endpoint.Bounds() { // powers of two, at which buckets begin
		for ; next < bucket(bound); next++ {
			under += all[next]
		}
		m.Durations = append(m.Durations, under)
	}
}

// Quantile returns the duration that a share q of them, from 0 to 1, does not exceed, to an eighth of it from 1 µs on; 0: there are none.
func (c *Counts) Quantile(q float64) time.Duration {
	n := c.Total()
	if n == 0 {
		return 0
	}
	before := min(uint64(q*float64(n)), n-1)
	for i, m := range c {
		if m > before {
			return (lower(i) + lower(i+1)) / 2
		}
		before -= m
	}
	panic("unreachable: before is less than the sum of c")
}

// bucket returns the bucket of d.
func bucket(d time.Duration) int {
	v := uint64(max(d, 0)) >> unitBits
	if v < 4 {
		return int(v)
	}
	exp := bits.Len64(v) - 3 // bits below the leading three
	return min(exp<<2+int(v>>exp), buckets-1)
}

// lower returns the shortest duration of bucket i, which may be one more than the last.
func lower(i int) time.Duration {
	if i < 4 {
		return time.Duration(i) << unitBits
	}
	exp := i>>2 - 1
	return time.Duration(4+i&3) << (exp + unitBits)
}
