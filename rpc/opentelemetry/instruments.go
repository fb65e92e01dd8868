package opentelemetry

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/grpc"
	grpcotel "google.golang.org/grpc/stats/opentelemetry"
)

// instruments makes those instruments of a meter that are switched on; the others record nothing.
type instruments struct {
	meter metric.Meter
	on    map[string]bool
}

func newInstruments(o grpcotel.MetricsOptions) instruments {
	set := o.Metrics
	if set == nil {
		set = grpcotel.DefaultMetrics()
	}
	return instruments{meter: o.MeterProvider.Meter(scope, metric.WithInstrumentationVersion(grpc.Version)), on: set.Metrics()}
}

// instrument returns what create makes of the instrument called name, or off when it is not switched on or
// cannot be made.
func instrument[I any](in instruments, name string, off I, create func() (I, error)) I {
	if !in.on[name] {
		return off
	}
	i, err := create()
	if err != nil {
		logger.Errorf("The instrument %q cannot be made and is not recorded: %v", name, err)
		return off
	}
	return i
}

func (in instruments) counter(name, unit, description string) metric.Int64Counter {
	return instrument(in, name, metric.Int64Counter(noop.Int64Counter{}), func() (metric.Int64Counter, error) {
		return in.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
	})
}

// seconds makes a histogram of times.
func (in instruments) seconds(name, description string) metric.Float64Histogram {
	return instrument(in, name, metric.Float64Histogram(noop.Float64Histogram{}), func() (metric.Float64Histogram, error) {
		return in.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description),
			metric.WithExplicitBucketBoundaries(grpcotel.DefaultLatencyBounds...))
	})
}

// sizes makes a histogram of bytes.
func (in instruments) sizes(name, description string) metric.Int64Histogram {
	return instrument(in, name, metric.Int64Histogram(noop.Int64Histogram{}), func() (metric.Int64Histogram, error) {
		return in.meter.Int64Histogram(name, metric.WithUnit("By"), metric.WithDescription(description),
			metric.WithExplicitBucketBoundaries(grpcotel.DefaultSizeBounds...))
	})
}

// with is the option of a measurement with these attributes.
func with(kv ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(kv...))
}
