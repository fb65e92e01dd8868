package latency

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tarn-go/tarn/debug/endpoint"
	"github.com/tarn-go/tarn/internal/monotonic"
)

// Each duration lies between the bounds of its bucket, which divide each doubling by four.
func TestBuckets(t *testing.T) {
	for i := range buckets {
		from, to := lower(i), lower(i+1)
		if bucket(from) != i || bucket(to-1) != i {
			t.Fatalf("bucket %d, of %v to %v, has not its own bounds: %d and %d", i, from, to, bucket(from), bucket(to-1))
		}
		if from >= time.Microsecond && 4*(to-from) > from {
			t.Errorf("bucket %d, of %v to %v, is wider than a quarter", i, from, to)
		}
	}
	for _, d := range []time.Duration{-1, 0} {
		if bucket(d) != 0 {
			t.Errorf("%v is in bucket %d", d, bucket(d))
		}
	}
	if lower(buckets-1) < 30*time.Minute || bucket(1<<63-1) != buckets-1 {
		t.Errorf("the last bucket begins at %v", lower(buckets-1))
	}
}

// A quantile is that of the sorted durations, to an eighth.
func TestQuantiles(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var h Histogram
		all := make([]time.Duration, 1+r.IntN(2000))
		sum := time.Duration(0)
		for i := range all {
			all[i] = time.Microsecond << r.IntN(30)
			all[i] += time.Duration(r.Int64N(int64(all[i])))
			sum += all[i]
			h.Add(all[i], 0)
		}
		slices.Sort(all)
		c := h.All()
		if c.Total() != uint64(len(all)) || h.Sum() != sum {
			t.Fatalf("%d durations of %v together, want %d of %v", c.Total(), h.Sum(), len(all), sum)
		}
		for _, q := range []float64{0, 0.25, 0.5, 0.9, 0.99, 1} {
			want := all[min(int(q*float64(len(all))), len(all)-1)]
			if got := c.Quantile(q); 8*(got-want).Abs() > want {
				t.Fatalf("quantile %v of %d durations is %v, want %v", q, len(all), got, want)
			}
		}
	}
	if got := new(Counts).Quantile(0.5); got != 0 {
		t.Errorf("the median of nothing is %v", got)
	}
}

// The last minute has what was added in the six whole periods before the present one, and in that.
func TestLastMinute(t *testing.T) {
	type added struct {
		at monotonic.Instant
		d  time.Duration
	}
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 3))
		var h Histogram
		var model []added
		now := monotonic.Instant(r.Int64N(int64(time.Hour)))
		for range 300 {
			now += monotonic.Instant(r.Int64N(int64([]time.Duration{time.Second, period, 3 * time.Minute}[r.IntN(3)])))
			if r.IntN(3) > 0 {
				d := time.Duration(r.Int64N(int64(time.Second)))
				h.Add(d, now)
				model = append(model, added{now, d})
				continue
			}
			var want Counts
			for _, a := range model {
				if int64(a.at)/int64(period) >= int64(now)/int64(period)-periods {
					want[bucket(a.d)]++
				}
			}
			if got := h.LastMinute(now); *got != want {
				t.Fatalf("seed %d at %v: %d in the last minute, want %d", seed, time.Duration(now), got.Total(), want.Total())
			}
		}
		if h.All().Total() != uint64(len(model)) {
			t.Fatalf("%d in all, want %d", h.All().Total(), len(model))
		}
	}
}

// A counter of the last minute survives the overflow of 32 bits.
func TestLastMinuteOverflow(t *testing.T) {
	var h Histogram
	h.counts[7].Store(1<<32 - 2)
	at := monotonic.Instant(time.Hour)
	h.LastMinute(at)
	at += monotonic.Instant(2 * time.Minute)
	for range 5 {
		h.Add(lower(7), at)
	}
	if got := h.LastMinute(at).Total(); got != 5 {
		t.Errorf("%d, want 5", got)
	}
}

// Nothing that is added at the same time as periods end is lost.
func TestConcurrent(t *testing.T) {
	var h Histogram
	var wg sync.WaitGroup
	const adders, each = 4, 2000
	for i := range adders {
		wg.Go(func() {
			for j := range each {
				h.Add(time.Millisecond, monotonic.Instant(time.Duration(j)*period/100+time.Duration(i)))
			}
		})
	}
	wg.Go(func() {
		for j := range each {
			if n := h.LastMinute(monotonic.Instant(time.Duration(j) * period / 100)).Total(); n > adders*each {
				t.Errorf("%d in the last minute", n)
			}
		}
	})
	wg.Wait()
	if n := h.All().Total(); n != adders*each {
		t.Errorf("%d in all, want %d", n, adders*each)
	}
}

func TestAllocations(t *testing.T) {
	var h Histogram
	if n := testing.AllocsPerRun(100, func() { h.Add(time.Millisecond, monotonic.Now()) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAdd(b *testing.B) {
	var h Histogram
	b.ReportAllocs()
	at := monotonic.Now()
	for b.Loop() {
		h.Add(time.Millisecond, at)
	}
}

// A report has how many durations are less than each bound of a histogram.
func TestReport(t *testing.T) {
	var h Histogram
	for _, d := range []time.Duration{0, 1<<17 - 1, 1 << 17, time.Millisecond, time.Second, time.Hour} {
		h.Add(d, 0)
	}
	var m endpoint.Method
	var s Slowest
	s.Keep(time.Hour, 0, "x")
	Report(&m, h.All(), h.LastMinute(0), &s, 0)
	if m.Slowest == nil || *m.Slowest != (endpoint.Slow{Seconds: 3600, Trace: "x"}) {
		t.Errorf("the slowest: %+v", m.Slowest)
	}
	for i, bound := range endpoint.Bounds() {
		want := uint64(2)
		for _, d := range []time.Duration{1 << 17, time.Millisecond, time.Second} {
			if d < bound {
				want++
			}
		}
		if m.Durations[i] != want {
			t.Errorf("%d durations are less than %v, want %d", m.Durations[i], bound, want)
		}
	}
	if m.Minute.Ended != 6 || m.P99 != h.All().Quantile(0.99).Seconds() {
		t.Errorf("%+v", m)
	}
}
