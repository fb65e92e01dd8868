// Package otel publishes pools to an OpenTelemetry meter:
//
//	stop, err := otel.Register(otelapi.Meter("myservice"), pool)
//
// The instruments are named as the debug page's Prometheus text names its metrics, with points for
// underscores after the first two words and without the ending of counters: tarn.pool.in_use_bytes
// becomes tarn.pool.in_use, of unit By. OpenTelemetry has no observable histogram, so the sizes asked for
// are the counter tarn.pool.requested_size, of unit {get}, whose attribute "le" is the largest size in
// bytes of a bucket, as in Prometheus, and "+Inf" for all; and what calls took is tarn.endpoint.call_duration, of unit {call}, in the
// same way, with seconds. A program that does not import this package does not link
// OpenTelemetry.
package otel

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/debug"
	"github.com/tarn-go/tarn/debug/internal/metrics"
	"github.com/tarn-go/tarn/debug/internal/names"
)

// Registration is what Register returned, to be given up with Unregister.
type Registration = metric.Registration

// space has the names that the Registrations of the process publish.
var space = sync.OnceValue(func() *names.Space { return new(names.Space) })

// registration frees the names of its reader when it is given up.
type registration struct {
	metric.Registration
	names *names.Publisher
}

func (r registration) Unregister() error {
	err := r.Registration.Unregister()
	r.names.Close()
	return err
}

// Option changes what is published.
type Option func(*reader)

// WithClasses adds seven instruments that have a point for each size class in use: the default classes are more than a hundred.
func WithClasses() Option { return func(r *reader) { r.ofClasses = metrics.Classes() } }

// Register makes meter observe pools. Their names become the attribute "pool"; a pool without a name is
// named by its position, and one whose name is taken, also by a pool of another Registration, has a number
// after it: Register runs a garbage collection first then, in case that other Registration is not in use any more.
// Nil pools are left out.
// Collections take what [debug.Watcher] has: each pool is asked for its Stats at most twice a second.
// Errors are the meter's.
func Register(meter metric.Meter, pools ...*tarn.Pool) (Registration, error) {
	return RegisterOf(meter, debug.NewRegistry(pools...))
}

// RegisterOf makes meter observe the pools that source has at each collection, and its servers and clients,
// whose instruments have the attribute "endpoint".
func RegisterOf(meter metric.Meter, source debug.Source, options ...Option) (Registration, error) {
	r := &reader{watcher: debug.NewWatcher(source), names: space().Publisher()}
	for _, o := range options {
		o(r)
	}
	var all []metric.Observable
	var failed error
	for _, m := range metrics.Pool() {
		i, err := instrument(meter, m.Name, m.Help, m.Unit, m.Kind)
		failed = errors.Join(failed, err)
		all = append(all, i)
		r.pool = append(r.pool, observed[tarn.Stats]{i, m.Value})
	}
	for _, m := range r.ofClasses {
		i, err := instrument(meter, m.Name, m.Help, m.Unit, m.Kind)
		failed = errors.Join(failed, err)
		all = append(all, i)
		r.classes = append(r.classes, observed[tarn.ClassStats]{i, m.Value})
	}
	var err error
	r.pinned, err = instrument(meter, metrics.PinnedName, metrics.PinnedHelp, "By", metrics.Gauge)
	failed = errors.Join(failed, err)
	r.sizes, err = instrument(meter, metrics.SizesName, metrics.SizesHelp, "{get}", metrics.Counter)
	failed = errors.Join(failed, err)
	r.durations, err = instrument(meter, metrics.DurationsName, metrics.DurationsHelp, "{call}", metrics.Counter)
	failed = errors.Join(failed, err)
	for _, m := range metrics.Endpoint() {
		i, err := floatInstrument(meter, m.Name, m.Help, m.Unit, m.Kind)
		failed = errors.Join(failed, err)
		all = append(all, i)
		r.endpoints = append(r.endpoints, observedEndpoint{i, m})
	}
	if failed != nil {
		return nil, failed
	}
	all = append(all, r.pinned, r.sizes, r.durations)
	made, err := meter.RegisterCallback(r.observe, all...)
	if err != nil {
		return nil, err
	}
	r.names.Claim(r.watcher.Names())
	return registration{made, r.names}, nil
}

// instrument makes a counter or a gauge.
func instrument(meter metric.Meter, name, help, unit string, kind metrics.Kind) (metric.Int64Observable, error) {
	if kind == metrics.Counter {
		return meter.Int64ObservableCounter(Name(name), metric.WithDescription(help), metric.WithUnit(unit))
	}
	return meter.Int64ObservableUpDownCounter(Name(name), metric.WithDescription(help), metric.WithUnit(unit))
}

// floatInstrument makes a counter or a gauge of floating-point values.
func floatInstrument(meter metric.Meter, name, help, unit string, kind metrics.Kind) (metric.Float64Observable, error) {
	switch kind {
	case metrics.Counter:
		return meter.Float64ObservableCounter(Name(name), metric.WithDescription(help), metric.WithUnit(unit))
	case metrics.Level:
		return meter.Float64ObservableGauge(Name(name), metric.WithDescription(help), metric.WithUnit(unit))
	}
	return meter.Float64ObservableUpDownCounter(Name(name), metric.WithDescription(help), metric.WithUnit(unit))
}

// Name turns a Prometheus name into that of the OpenTelemetry instrument, without the unit and the
// ending of counters, which OpenTelemetry states separately.
func Name(prometheus string) string {
	name := strings.NewReplacer("tarn_pool_", "tarn.pool.", "tarn_endpoint_", "tarn.endpoint.").Replace(prometheus)
	// What is left of tarn_endpoint_call_seconds_total differs from tarn_endpoint_calls_total.
	return strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_total"), "_bytes"), "_seconds")
}

// observed is an instrument and where its value comes from.
type observed[S any] struct {
	instrument metric.Int64Observable
	value      func(S) float64
}

// observedEndpoint is an instrument of servers and clients.
type observedEndpoint struct {
	instrument metric.Float64Observable
	metric     metrics.EndpointMetric
}

type reader struct {
	endpoints []observedEndpoint

	watcher   *debug.Watcher
	names     *names.Publisher
	ofClasses []metrics.ClassMetric

	pool    []observed[tarn.Stats]
	classes []observed[tarn.ClassStats]
	pinned  metric.Int64Observable
	sizes   metric.Int64Observable

	durations metric.Int64Observable
}

// observe is the meter's callback. Classes never asked for are left out.
func (r *reader) observe(_ context.Context, o metric.Observer) error {
	snapshot := r.watcher.Snapshot()
	pools, endpoints := r.names.Set(snapshot.Names())
	for i, e := range snapshot.Endpoints {
		for _, m := range r.endpoints {
			for _, p := range m.metric.Values(e) {
				with := []attribute.KeyValue{attribute.String("endpoint", endpoints[i])}
				for j, l := range m.metric.Labels {
					with = append(with, attribute.String(l, p.Labels[j]))
				}
				o.ObserveFloat64(m.instrument, p.Value, metric.WithAttributes(with...))
			}
		}
		for _, m := range e.Methods {
			d, ok := metrics.DurationsOf(m)
			if !ok {
				continue
			}
			of := []attribute.KeyValue{attribute.String("endpoint", endpoints[i]), attribute.String("method", m.Name)}
			for _, b := range d.Buckets {
				o.ObserveInt64(r.durations, int64(b.Count), metric.WithAttributes(append(of, attribute.String("le", strconv.FormatFloat(b.Seconds, 'g', -1, 64)))...))
			}
			o.ObserveInt64(r.durations, int64(d.Count), metric.WithAttributes(append(of, attribute.String("le", "+Inf"))...))
		}
	}
	for i, p := range snapshot.Pools {
		s := p.Stats()
		name := attribute.String("pool", pools[i])
		for _, m := range r.pool {
			o.ObserveInt64(m.instrument, int64(m.value(s)), metric.WithAttributes(name))
		}
		o.ObserveInt64(r.pinned, p.Pinned, metric.WithAttributes(name))
		if p.Histogram != nil {
			sizes := metrics.SizesOf(*p.Histogram)
			for _, b := range sizes.Buckets {
				o.ObserveInt64(r.sizes, int64(b.Count), metric.WithAttributes(name, attribute.String("le", strconv.Itoa(b.UpTo))))
			}
			o.ObserveInt64(r.sizes, int64(sizes.Count), metric.WithAttributes(name, attribute.String("le", "+Inf")))
		}
		for _, c := range s.Classes {
			if len(r.classes) == 0 || !metrics.Used(c) {
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
