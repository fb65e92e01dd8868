// Package prom publishes pools to a Prometheus registry:
//
//	prometheus.MustRegister(prom.New(pool))
//
// The families are those of the debug page's Prometheus text, under the same names. A program that does
// not import this package does not link the Prometheus client.
package prom

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/debug"
	"github.com/tarn-go/tarn/debug/endpoint"
	"github.com/tarn-go/tarn/debug/internal/metrics"
	"github.com/tarn-go/tarn/debug/internal/names"
)

// Collector is a prometheus.Collector of some pools. It is safe for concurrent use. Several Collectors may be in
// one registry, whatever the names of their pools, servers and clients: a name that an older Collector of the process
// publishes has a number after it, as it has within one Collector. A pool that is to have the same name in two
// registries is published by one Collector, which is registered in both. A registry cannot unregister a Collector:
// a pool that is to go is removed from the Collector's [debug.Registry]. Its name is free after the next scrape, or
// when the Collector is garbage collected: a new Collector that finds a name taken runs a garbage collection first.
type Collector struct {
	watcher *debug.Watcher
	names   *names.Publisher
	pool    []described[metrics.Metric]
	classes []described[metrics.ClassMetric]
	pinned  *prometheus.Desc
	sizes   *prometheus.Desc

	durations *prometheus.Desc
	endpoints []described[metrics.EndpointMetric]
}

// described is a metric with its Prometheus description.
type described[M any] struct {
	metric M
	desc   *prometheus.Desc
	kind   prometheus.ValueType
}

// Option changes what a Collector publishes.
type Option func(*Collector)

// WithClasses adds seven families that have a series for each size class in use: the default classes are more than a hundred.
func WithClasses() Option {
	return func(c *Collector) {
		for _, m := range metrics.Classes() {
			c.classes = append(c.classes, described[metrics.ClassMetric]{m, prometheus.NewDesc(m.Name, m.Help, []string{"pool", "class"}, nil), valueType(m.Kind)})
		}
	}
}

// space has the names that the Collectors of the process publish.
var space = sync.OnceValue(func() *names.Space { return new(names.Space) })

// New returns a Collector of pools. Their names become the label "pool"; a pool without a name is named
// by its position, and one whose name is taken has a number after it. Nil pools are left out. Scrapes
// take what [debug.Watcher] has: each pool is asked for its Stats at most twice a second.
func New(pools ...*tarn.Pool) *Collector { return NewOf(debug.NewRegistry(pools...)) }

// NewOf returns a Collector of the pools that source has at each scrape, and of its servers and clients.
func NewOf(source debug.Source, options ...Option) *Collector {
	c := &Collector{
		watcher: debug.NewWatcher(source),
		names:   space().Publisher(),
		pinned:  prometheus.NewDesc(metrics.PinnedName, metrics.PinnedHelp, []string{"pool"}, nil),
		sizes:   prometheus.NewDesc(metrics.SizesName, metrics.SizesHelp, []string{"pool"}, nil),

		durations: prometheus.NewDesc(metrics.DurationsName, metrics.DurationsHelp, []string{"endpoint", "method"}, nil),
	}
	for _, m := range metrics.Pool() {
		c.pool = append(c.pool, described[metrics.Metric]{m, prometheus.NewDesc(m.Name, m.Help, []string{"pool"}, nil), valueType(m.Kind)})
	}
	for _, m := range metrics.Endpoint() {
		names := append([]string{"endpoint"}, m.Labels...)
		c.endpoints = append(c.endpoints, described[metrics.EndpointMetric]{m, prometheus.NewDesc(m.Name, m.Help, names, nil), valueType(m.Kind)})
	}
	for _, o := range options {
		o(c)
	}
	c.names.Claim(c.watcher.Names())
	return c
}

func valueType(k metrics.Kind) prometheus.ValueType {
	if k == metrics.Counter {
		return prometheus.CounterValue
	}
	return prometheus.GaugeValue
}

// Describe implements prometheus.Collector. It describes nothing: two Collectors have the same families
// and differ in the label "pool" alone, which a registry would take for a clash.
func (c *Collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. Classes never asked for are left out.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	snapshot := c.watcher.Snapshot()
	pools, endpoints := c.names.Set(snapshot.Names())
	for i, e := range snapshot.Endpoints {
		for _, m := range c.endpoints {
			for _, p := range m.metric.Values(e) {
				ch <- constMetric(m.desc, m.kind, p.Value, append([]string{endpoints[i]}, p.Labels...)...)
			}
		}
		for _, m := range e.Methods {
			if d, ok := metrics.DurationsOf(m); ok {
				buckets := make(map[float64]uint64, len(d.Buckets))
				for _, b := range d.Buckets {
					buckets[b.Seconds] = b.Count
				}
				h := prometheus.MustNewConstHistogram(c.durations, d.Count, d.Sum, buckets,
					strings.ToValidUTF8(endpoints[i], invalid), strings.ToValidUTF8(m.Name, invalid))
				ch <- withExemplar(h, m.Slowest)
			}
		}
	}
	for i, p := range snapshot.Pools {
		s, name := p.Stats(), pools[i]
		for _, m := range c.pool {
			ch <- constMetric(m.desc, m.kind, m.metric.Value(s), name)
		}
		ch <- constMetric(c.pinned, prometheus.GaugeValue, float64(p.Pinned), name)
		if p.Histogram != nil {
			sizes := metrics.SizesOf(*p.Histogram)
			buckets := make(map[float64]uint64, len(sizes.Buckets))
			for _, b := range sizes.Buckets {
				buckets[float64(b.UpTo)] = b.Count
			}
			ch <- prometheus.MustNewConstHistogram(c.sizes, sizes.Count, sizes.Sum, buckets, strings.ToValidUTF8(name, invalid))
		}
		if c.classes == nil {
			continue
		}
		for _, class := range s.Classes {
			if !metrics.Used(class) {
				continue
			}
			for _, m := range c.classes {
				ch <- constMetric(m.desc, m.kind, m.metric.Value(class), name, metrics.Label(class.Size))
			}
		}
	}
}

// withExemplar returns h with the slowest call of the last minute as an exemplar, which OpenMetrics shows, if its trace is known.
func withExemplar(h prometheus.Metric, slowest *endpoint.Slow) prometheus.Metric {
	if slowest == nil || slowest.Trace == "" {
		return h
	}
	with, err := prometheus.NewMetricWithExemplars(h, prometheus.Exemplar{Value: slowest.Seconds, Labels: prometheus.Labels{"trace_id": slowest.Trace}})
	if err != nil { // of a source that is not Tarn's: the trace is no label's value
		return h
	}
	return with
}

// invalid takes the place of bytes that are not UTF-8 in a label, as in the page's text.
const invalid = "\uFFFD"

// constMetric makes a metric. Names of pools and methods may be any bytes, and the client library panics with labels that are not
// UTF-8, on a goroutine of the registry: that would end the program.
func constMetric(desc *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) prometheus.Metric {
	for i, l := range labels {
		labels[i] = strings.ToValidUTF8(l, invalid)
	}
	return prometheus.MustNewConstMetric(desc, kind, v, labels...)
}
