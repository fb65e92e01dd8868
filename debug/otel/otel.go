// Package otel publishes pools to an OpenTelemetry meter:
//
//	stop, err := otel.Register(otelapi.Meter("myservice"), pool)
//
// The instruments are named as the debug page's Prometheus text names its metrics, with points for
// underscores after the first two words and without the ending of counters: tarn.pool.in_use_bytes
// becomes tarn.pool.in_use, of unit By. A program that does not import this package does not link
// OpenTelemetry.
package otel

import (
	"context"
	"errors"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/debug/internal/metrics"
)

// Registration is what Register returned, to be given up with Unregister.
type Registration = metric.Registration

// Register makes meter observe pools, which need distinct names: they become the attribute "pool".
// Nil pools are left out. Each collection asks each pool for its Stats once. Errors are the meter's.
func Register(meter metric.Meter, pools ...*tarn.Pool) (Registration, error) {
	var r reader
	for _, p := range pools {
		if p != nil {
			r.pools = append(r.pools, p)
		}
	}
	var all []metric.Observable
	var failed error
	for _, m := range metrics.Pool() {
		i, err := instrument(meter, m.Name, m.Help, m.Unit, m.Kind)
		failed = errors.Join(failed, err)
		all = append(all, i)
		r.pool = append(r.pool, observed[tarn.Stats]{i, m.Value})
	}
	for _, m := range metrics.Classes() {
		i, err := instrument(meter, m.Name, m.Help, m.Unit, m.Kind)
		failed = errors.Join(failed, err)
		all = append(all, i)
		r.classes = append(r.classes, observed[tarn.ClassStats]{i, m.Value})
	}
	if failed != nil {
		return nil, failed
	}
	return meter.RegisterCallback(r.observe, all...)
}

// instrument makes a counter or a gauge.
func instrument(meter metric.Meter, name, help, unit string, kind metrics.Kind) (metric.Int64Observable, error) {
	if kind == metrics.Counter {
		return meter.Int64ObservableCounter(Name(name), metric.WithDescription(help), metric.WithUnit(unit))
	}
	return meter.Int64ObservableUpDownCounter(Name(name), metric.WithDescription(help), metric.WithUnit(unit))
}

// Name turns a Prometheus name into that of the OpenTelemetry instrument: units and the ending of
// counters, which OpenTelemetry keeps apart, go.
func Name(prometheus string) string {
	name := strings.Replace(prometheus, "tarn_pool_", "tarn.pool.", 1)
	return strings.TrimSuffix(strings.TrimSuffix(name, "_total"), "_bytes")
}

// observed is an instrument and where its value comes from.
type observed[S any] struct {
	instrument metric.Int64Observable
	value      func(S) float64
}

type reader struct {
	pools   []*tarn.Pool
	pool    []observed[tarn.Stats]
	classes []observed[tarn.ClassStats]
}

// observe is the meter's callback. Classes never asked for are left out.
func (r *reader) observe(_ context.Context, o metric.Observer) error {
	for _, p := range r.pools {
		s := p.Stats()
		name := attribute.String("pool", s.Name)
		for _, m := range r.pool {
			o.ObserveInt64(m.instrument, int64(m.value(s)), metric.WithAttributes(name))
		}
		for _, c := range s.Classes {
			if !metrics.Used(c) {
				continue
			}
			with := metric.WithAttributes(name, attribute.String("class", metrics.Label(c.Size)))
			for _, m := range r.classes {
				o.ObserveInt64(m.instrument, int64(m.value(c)), with)
			}
		}
	}
	return nil
}
