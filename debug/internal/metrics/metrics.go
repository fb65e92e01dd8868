// Package metrics is the list of what is published of a pool, once for every way it is published:
// Prometheus text, a prometheus.Collector, an OpenTelemetry meter.
package metrics

import (
	"strconv"

	"github.com/tarn-go/tarn"
)

// Kind says how a value behaves.
type Kind int

// The kinds of metrics.
const (
	Counter Kind = iota // only grows
	Gauge
	Level // a gauge that is not added up, such as a quantile
)

// Metric is one value of a pool, named by the conventions of Prometheus: base units, counters end in
// _total.
type Metric struct {
	Name  string
	Help  string
	Unit  string // as OpenTelemetry writes it: "By", "{buffer}"
	Kind  Kind
	Value func(tarn.Stats) float64
}

// ClassMetric is one value of each size class of a pool.
type ClassMetric struct {
	Name  string
	Help  string
	Unit  string
	Kind  Kind
	Value func(tarn.ClassStats) float64
}

// Pool returns the metrics of a pool as a whole.
func Pool() []Metric {
	return []Metric{
		{"tarn_pool_in_use_bytes", "Bytes of slabs in use.", "By", Gauge, func(s tarn.Stats) float64 { return float64(s.InUse) }},
		{"tarn_pool_idle_bytes", "Bytes of slabs kept for reuse.", "By", Gauge, func(s tarn.Stats) float64 { return float64(s.Idle) }},
		{"tarn_pool_peak_bytes", "The most bytes that were ever in use and idle together.", "By", Gauge, func(s tarn.Stats) float64 { return float64(s.Peak) }},
		{"tarn_pool_retain_limit_bytes", "Bound on the bytes of slabs that the pool keeps, in use and idle together.", "By", Gauge, func(s tarn.Stats) float64 { return float64(s.Retain) }},
		{"tarn_pool_budget_limit_bytes", "Bound on bytes in use, 0 where there is none.", "By", Gauge, func(s tarn.Stats) float64 { return float64(s.Budget) }},
		{"tarn_pool_in_use_buffers", "Slabs in use.", "{buffer}", Gauge, func(s tarn.Stats) float64 { return float64(s.InUseBuffers) }},
		{"tarn_pool_waiting", "Acquires waiting for the budget.", "{call}", Gauge, func(s tarn.Stats) float64 { return float64(s.Waiting) }},
		{"tarn_pool_leaked_buffers_total", "Slabs collected by the garbage collector while still referenced.", "{buffer}", Counter, func(s tarn.Stats) float64 { return float64(s.Leaked) }},
		{"tarn_pool_misused_total", "Uses and frees of freed references, and writes to freed memory.", "{misuse}", Counter, func(s tarn.Stats) float64 { return float64(s.Misused) }},
		{"tarn_pool_refused_total", "Foreign slices that were offered to the pool and refused.", "{buffer}", Counter, func(s tarn.Stats) float64 { return float64(s.Refused) }},
		{"tarn_pool_over_budget_total", "Gets that went over the budget.", "{get}", Counter, func(s tarn.Stats) float64 { return float64(s.OverBudget) }},
		{"tarn_pool_gets_total", "Buffers requested.", "{get}", Counter, func(s tarn.Stats) float64 { return float64(s.Gets) }},
		{"tarn_pool_hits_total", "Gets served from idle slabs.", "{get}", Counter, func(s tarn.Stats) float64 { return float64(s.Hits) }},
		{"tarn_pool_misses_total", "Gets that allocated.", "{get}", Counter, func(s tarn.Stats) float64 { return float64(s.Misses) }},
		{"tarn_pool_frees_total", "Slabs whose last reference was freed.", "{buffer}", Counter, func(s tarn.Stats) float64 { return float64(s.Frees) }},
		{"tarn_pool_dropped_total", "Slabs not kept when they were returned, or given up later.", "{buffer}", Counter, func(s tarn.Stats) float64 { return float64(s.Dropped) }},
		{"tarn_pool_gc_cycles_total", "Garbage collections seen by the pool.", "{cycle}", Counter, func(s tarn.Stats) float64 { return float64(s.Cycles) }},
	}
}

// Classes returns the metrics that each size class has, which are published only where they are asked for: the default classes are more
// than a hundred. Summed over classes they are the pool's, but for classes that a pool has given up.
func Classes() []ClassMetric {
	return []ClassMetric{
		{"tarn_pool_class_gets_total", "Buffers requested, by size class.", "{get}", Counter, func(c tarn.ClassStats) float64 { return float64(c.Gets) }},
		{"tarn_pool_class_hits_total", "Gets served from idle slabs, by size class.", "{get}", Counter, func(c tarn.ClassStats) float64 { return float64(c.Hits) }},
		{"tarn_pool_class_misses_total", "Gets that allocated, by size class.", "{get}", Counter, func(c tarn.ClassStats) float64 { return float64(c.Misses) }},
		{"tarn_pool_class_frees_total", "Slabs whose last reference was freed, by size class.", "{buffer}", Counter, func(c tarn.ClassStats) float64 { return float64(c.Frees) }},
		{"tarn_pool_class_dropped_total", "Slabs not kept when they were returned, or given up later, by size class.", "{buffer}", Counter, func(c tarn.ClassStats) float64 { return float64(c.Dropped) }},
		{"tarn_pool_class_in_use_buffers", "Slabs of the class in use.", "{buffer}", Gauge, func(c tarn.ClassStats) float64 { return float64(c.InUse) }},
		{"tarn_pool_class_idle_buffers", "Slabs of the class kept for reuse.", "{buffer}", Gauge, func(c tarn.ClassStats) float64 { return float64(c.Idle) }},
	}
}

// Label is the value of the label "class": the slab size in bytes, or "oversize" for requests above
// the largest class.
func Label(size int) string {
	if size == 0 {
		return "oversize"
	}
	return strconv.Itoa(size)
}

// Used reports whether a class was used and is published: the default ladder has a hundred classes, of
// which most programs use a few.
func Used(c tarn.ClassStats) bool { return c.Gets > 0 }
