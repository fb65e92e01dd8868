package latency

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarn-go/tarn/internal/monotonic"
)

// Slowest keeps the slowest of what ended in the last minute, with its trace. The zero Slowest is ready to use, and must not be copied. Its methods are
// safe for concurrent use.
type Slowest struct {
	next  atomic.Int64 // when the present period ends, as an Instant
	least atomic.Int64 // nanoseconds: what took no longer is not the present period's slowest

	mu sync.Mutex
	of [periods + 1]slow // by the number of the period
}

// slow is the slowest of a period.
type slow struct {
	period int64
	took   time.Duration
	trace  string
}

// Surpasses reports whether d, of something that ended now, is longer than all of the present period, and so is for Keep.
func (s *Slowest) Surpasses(d time.Duration, now monotonic.Instant) bool {
	return int64(d) > s.least.Load() || int64(now) >= s.next.Load()
}

// Keep keeps d, of something that ended now, with its trace, if it is the longest of its period.
func (s *Slowest) Keep(d time.Duration, now monotonic.Instant, trace string) {
	current := int64(now) / int64(period)
	s.mu.Lock()
	defer s.mu.Unlock()
	of := &s.of[current%int64(len(s.of))]
	if of.period == current && d <= of.took || of.period > current {
		return
	}
	*of = slow{current, d, trace}
	if next := (current + 1) * int64(period); next >= s.next.Load() {
		s.next.Store(next)
		s.least.Store(int64(d))
	}
}

// LastMinute returns the longest of the 60 to 70 seconds before now, and its trace; 0: nothing has ended in them.
func (s *Slowest) LastMinute(now monotonic.Instant) (took time.Duration, trace string) {
	current := int64(now) / int64(period)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.of {
		if of.took > took && of.period >= current-periods && of.period <= current {
			took, trace = of.took, of.trace
		}
	}
	return took, trace
}

// TraceOf returns the identity of the trace that a traceparent field names (W3C Trace Context, section 3.2.2.3); "": it names none.
func TraceOf(traceparent string) string {
	if len(traceparent) < 55 || traceparent[2] != '-' || traceparent[35] != '-' { // "00-", 32 digits, "-", 16 digits, "-01"
		return ""
	}
	id := traceparent[3:35]
	if strings.Trim(id, "0123456789abcdef") != "" || strings.Trim(id, "0") == "" {
		return ""
	}
	return strings.Clone(id)
}
