// Package prom publishes pools to a Prometheus registry:
//
//	prometheus.MustRegister(prom.New(pool))
//
// The metrics are those of the debug page's Prometheus text, under the same names. A program that does
// not import this package does not link the Prometheus client.
package prom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/debug/internal/metrics"
)

// Collector is a prometheus.Collector of some pools. It is immutable and safe for concurrent use.
type Collector struct {
	pools   []*tarn.Pool
	pool    []described[metrics.Metric]
	classes []described[metrics.ClassMetric]
}

// described is a metric with its Prometheus description.
type described[M any] struct {
	metric M
	desc   *prometheus.Desc
	kind   prometheus.ValueType
}

// New returns a Collector of pools, which need distinct names: they become the label "pool". Nil pools
// are left out. Each scrape asks each pool for its Stats once.
func New(pools ...*tarn.Pool) *Collector {
	c := &Collector{}
	for _, p := range pools {
		if p != nil {
			c.pools = append(c.pools, p)
		}
	}
	for _, m := range metrics.Pool() {
		c.pool = append(c.pool, described[metrics.Metric]{m, prometheus.NewDesc(m.Name, m.Help, []string{"pool"}, nil), valueType(m.Kind)})
	}
	for _, m := range metrics.Classes() {
		c.classes = append(c.classes, described[metrics.ClassMetric]{m, prometheus.NewDesc(m.Name, m.Help, []string{"pool", "class"}, nil), valueType(m.Kind)})
	}
	return c
}

func valueType(k metrics.Kind) prometheus.ValueType {
	if k == metrics.Counter {
		return prometheus.CounterValue
	}
	return prometheus.GaugeValue
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range c.pool {
		ch <- m.desc
	}
	for _, m := range c.classes {
		ch <- m.desc
	}
}

// Collect implements prometheus.Collector. Classes never asked for are left out.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	for _, p := range c.pools {
		s := p.Stats()
		for _, m := range c.pool {
			ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.metric.Value(s), s.Name)
		}
		for _, class := range s.Classes {
			if !metrics.Used(class) {
				continue
			}
			for _, m := range c.classes {
				ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.metric.Value(class), s.Name, metrics.Label(class.Size))
			}
		}
	}
}
