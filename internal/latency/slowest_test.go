package latency

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/monotonic"
)

// The slowest is that of a list of all that ended in the six whole periods before the present one, and in that.
func TestSlowest(t *testing.T) {
	type ended struct {
		at    monotonic.Instant
		took  time.Duration
		trace string
	}
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 4))
		var s Slowest
		var all []ended
		now := monotonic.Instant(r.Int64N(int64(time.Hour)))
		for i := range 400 {
			now += monotonic.Instant(r.Int64N(int64([]time.Duration{time.Second, period, 3 * time.Minute}[r.IntN(3)])))
			e := ended{now, time.Duration(1 + r.Int64N(int64(time.Second))), strconv.Itoa(i)}
			if s.Surpasses(e.took, now) {
				s.Keep(e.took, now, e.trace)
			}
			all = append(all, e)
			var want ended
			from := (int64(now)/int64(period) - periods) * int64(period)
			for _, e := range all {
				if int64(e.at) >= from && e.took > want.took {
					want = e
				}
			}
			if took, trace := s.LastMinute(now); took != want.took || trace != want.trace {
				t.Fatalf("seed %d, %d: %v of trace %s, want %v of %s", seed, i, took, trace, want.took, want.trace)
			}
		}
		if took, _ := s.LastMinute(now + monotonic.Instant(2*time.Minute)); took != 0 {
			t.Errorf("%v has not been forgotten", took)
		}
	}
}

func TestTraceOf(t *testing.T) {
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	for field, want := range map[string]string{
		"00-" + id + "-00f067aa0ba902b7-01": id, "cc-" + id + "-00f067aa0ba902b7-01-more": id, "": "", id: "", "00-" + id: "",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01": "", "00-<script>6e1e4c2d2e0a9b1c7f0d3a5b-00f067aa0ba902b7-01": "",
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01": "",
	} {
		if got := TraceOf(field); got != want {
			t.Errorf("%q: %q", field, got)
		}
	}
}
