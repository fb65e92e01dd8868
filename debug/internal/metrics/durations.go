package metrics

import (
	"github.com/tarn-go/tarn/debug/endpoint"
)

// The family of what calls took, which are a histogram.
const (
	DurationsName = "tarn_endpoint_call_duration_seconds"
	DurationsHelp = "What ended calls took."
)

// Durations are what the calls of a method took, as Prometheus counts them.
type Durations struct {
	Buckets []Under // rising
	Count   uint64
	Sum     float64 // seconds
}

// Under is how many calls took less than so many seconds.
type Under struct {
	Seconds float64
	Count   uint64
}

// DurationsOf sums up a method; ok is false if it is not known what its calls took.
func DurationsOf(m endpoint.Method) (d Durations, ok bool) {
	bounds := endpoint.Bounds()
	if len(m.Durations) != len(bounds) { // any program may be a source
		return Durations{}, false
	}
	// The source counts calls and durations one after the other, and a histogram's count must not be less than a bucket's.
	d = Durations{Count: m.Ended(), Sum: m.Seconds}
	for i, bound := range bounds {
		d.Buckets = append(d.Buckets, Under{bound.Seconds(), m.Durations[i]})
		d.Count = max(d.Count, m.Durations[i])
	}
	return d, true
}
