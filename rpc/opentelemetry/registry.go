package opentelemetry

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc/experimental/stats"
)

// registry records the metrics that resolvers, balancers and connections register with grpc-go: those that
// are switched on when it is made.
type registry struct {
	stats.UnimplementedMetricsRecorder
	meter    metric.Meter
	optional []string // the optional labels that are wanted

	counts      map[*stats.MetricDescriptor]metric.Int64Counter
	floatCounts map[*stats.MetricDescriptor]metric.Float64Counter
	upDowns     map[*stats.MetricDescriptor]metric.Int64UpDownCounter
	histograms  map[*stats.MetricDescriptor]metric.Int64Histogram
	floats      map[*stats.MetricDescriptor]metric.Float64Histogram
	gauges      map[*stats.MetricDescriptor]metric.Int64Gauge
	observed    map[*stats.MetricDescriptor]metric.Int64ObservableGauge
}

func newRegistry(in instruments, optional []string) *registry {
	r := &registry{meter: in.meter, optional: optional,
		counts:      map[*stats.MetricDescriptor]metric.Int64Counter{},
		floatCounts: map[*stats.MetricDescriptor]metric.Float64Counter{},
		upDowns:     map[*stats.MetricDescriptor]metric.Int64UpDownCounter{},
		histograms:  map[*stats.MetricDescriptor]metric.Int64Histogram{},
		floats:      map[*stats.MetricDescriptor]metric.Float64Histogram{},
		gauges:      map[*stats.MetricDescriptor]metric.Int64Gauge{},
		observed:    map[*stats.MetricDescriptor]metric.Int64ObservableGauge{},
	}
	for name, on := range in.on {
		d := stats.DescriptorForMetric(name)
		if !on || d == nil { // a metric of calls, or of something that is not linked
			continue
		}
		if err := r.add(d); err != nil {
			logger.Errorf("The instrument %q cannot be made and is not recorded: %v", name, err)
		}
	}
	return r
}

// add makes the instrument of d.
func (r *registry) add(d *stats.MetricDescriptor) (err error) {
	unit, text := metric.WithUnit(d.Unit), metric.WithDescription(d.Description)
	switch bounds := metric.WithExplicitBucketBoundaries(d.Bounds...); d.Type {
	case stats.MetricTypeIntCount:
		err = put(r.counts, d)(r.meter.Int64Counter(d.Name, unit, text))
	case stats.MetricTypeFloatCount:
		err = put(r.floatCounts, d)(r.meter.Float64Counter(d.Name, unit, text))
	case stats.MetricTypeIntUpDownCount:
		err = put(r.upDowns, d)(r.meter.Int64UpDownCounter(d.Name, unit, text))
	case stats.MetricTypeIntHisto:
		err = put(r.histograms, d)(r.meter.Int64Histogram(d.Name, unit, text, bounds))
	case stats.MetricTypeFloatHisto:
		err = put(r.floats, d)(r.meter.Float64Histogram(d.Name, unit, text, bounds))
	case stats.MetricTypeIntGauge:
		err = put(r.gauges, d)(r.meter.Int64Gauge(d.Name, unit, text))
	case stats.MetricTypeIntAsyncGauge:
		err = put(r.observed, d)(r.meter.Int64ObservableGauge(d.Name, unit, text))
	}
	return err
}

// put returns a function that makes an instrument without an error that of d.
func put[I any](m map[*stats.MetricDescriptor]I, d *stats.MetricDescriptor) func(I, error) error {
	return func(i I, err error) error {
		if err == nil {
			m[d] = i
		}
		return err
	}
}

// labels are the attributes of a measurement. There are as many values as d has labels, which grpc-go's
// caller checks.
func (r *registry) labels(d *stats.MetricDescriptor, values []string) metric.MeasurementOption {
	var kv []attribute.KeyValue
	for i, k := range d.Labels {
		kv = append(kv, attribute.String(k, values[i]))
	}
	for i, k := range d.OptionalLabels {
		if slices.Contains(r.optional, k) {
			kv = append(kv, attribute.String(k, values[len(d.Labels)+i]))
		}
	}
	return with(kv...)
}

// RecordInt64Count implements stats.MetricsRecorder.
func (r *registry) RecordInt64Count(h *stats.Int64CountHandle, n int64, labels ...string) {
	if i, ok := r.counts[h.Descriptor()]; ok {
		i.Add(context.Background(), n, r.labels(h.Descriptor(), labels))
	}
}

// RecordFloat64Count implements stats.MetricsRecorder.
func (r *registry) RecordFloat64Count(h *stats.Float64CountHandle, n float64, labels ...string) {
	if i, ok := r.floatCounts[h.Descriptor()]; ok {
		i.Add(context.Background(), n, r.labels(h.Descriptor(), labels))
	}
}

// RecordInt64UpDownCount implements stats.MetricsRecorder.
func (r *registry) RecordInt64UpDownCount(h *stats.Int64UpDownCountHandle, n int64, labels ...string) {
	if i, ok := r.upDowns[h.Descriptor()]; ok {
		i.Add(context.Background(), n, r.labels(h.Descriptor(), labels))
	}
}

// RecordInt64Histo implements stats.MetricsRecorder.
func (r *registry) RecordInt64Histo(h *stats.Int64HistoHandle, n int64, labels ...string) {
	if i, ok := r.histograms[h.Descriptor()]; ok {
		i.Record(context.Background(), n, r.labels(h.Descriptor(), labels))
	}
}

// RecordFloat64Histo implements stats.MetricsRecorder.
func (r *registry) RecordFloat64Histo(h *stats.Float64HistoHandle, n float64, labels ...string) {
	if i, ok := r.floats[h.Descriptor()]; ok {
		i.Record(context.Background(), n, r.labels(h.Descriptor(), labels))
	}
}

// RecordInt64Gauge implements stats.MetricsRecorder.
func (r *registry) RecordInt64Gauge(h *stats.Int64GaugeHandle, n int64, labels ...string) {
	if i, ok := r.gauges[h.Descriptor()]; ok {
		i.Record(context.Background(), n, r.labels(h.Descriptor(), labels))
	}
}

// RegisterAsyncReporter implements stats.MetricsRecorder: reporter is asked with each collection until the
// returned function is called.
func (r *registry) RegisterAsyncReporter(reporter stats.AsyncMetricReporter, metrics ...stats.AsyncMetric) func() {
	var of []metric.Observable
	for _, m := range metrics {
		if i, ok := r.observed[m.Descriptor()]; ok {
			of = append(of, i)
		}
	}
	if len(of) == 0 {
		return func() {}
	}
	reg, err := r.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		return reporter.Report(observation{r, o})
	}, of...)
	if err != nil {
		logger.Errorf("A reporter of metrics cannot be registered: %v", err)
		return func() {}
	}
	return func() {
		if err := reg.Unregister(); err != nil {
			logger.Errorf("A reporter of metrics cannot be unregistered: %v", err)
		}
	}
}

// observation is one collection from a reporter.
type observation struct {
	r  *registry
	to metric.Observer
}

// RecordInt64AsyncGauge implements stats.AsyncMetricsRecorder.
func (o observation) RecordInt64AsyncGauge(h *stats.Int64AsyncGaugeHandle, n int64, labels ...string) {
	if i, ok := o.r.observed[h.Descriptor()]; ok {
		o.to.ObserveInt64(i, n, o.r.labels(h.Descriptor(), labels))
	}
}
