package otel

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/embedded"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/tarn-go/tarn/debug"
	"github.com/tarn-go/tarn/debug/endpoint"
)

// floatMeter records the names of the instruments with floating-point values.
type floatMeter struct {
	meter
}

type floatCounter struct {
	noop.Float64ObservableCounter
	name string
}

type floatGauge struct {
	noop.Float64ObservableUpDownCounter
	name string
}

type floatLevel struct {
	noop.Float64ObservableGauge
	name string
}

func (*floatMeter) Float64ObservableGauge(name string, _ ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	return floatLevel{name: name}, nil
}

func (*floatMeter) Float64ObservableCounter(name string, _ ...metric.Float64ObservableCounterOption) (metric.Float64ObservableCounter, error) {
	return floatCounter{name: name}, nil
}

func (*floatMeter) Float64ObservableUpDownCounter(name string, _ ...metric.Float64ObservableUpDownCounterOption) (metric.Float64ObservableUpDownCounter, error) {
	return floatGauge{name: name}, nil
}

// floats takes values by instrument and attributes.
type floats struct {
	embedded.Observer
	values map[string]float64
}

func (floats) ObserveInt64(metric.Int64Observable, int64, ...metric.ObserveOption) {}

func (o floats) ObserveFloat64(i metric.Float64Observable, v float64, options ...metric.ObserveOption) {
	key := ""
	switch i := i.(type) {
	case floatCounter:
		key = i.name
	case floatGauge:
		key = i.name
	}
	set := metric.NewObserveConfig(options).Attributes()
	for _, a := range set.ToSlice() {
		key += " " + a.Value.AsString()
	}
	o.values[key] = v
}

// stub is a server with one value of each kind.
type stub struct{ name string }

func (s stub) Endpoint() endpoint.State {
	return endpoint.State{Kind: "server", Name: s.name, Conns: 3, Refused: 7, Ended: map[string]uint64{"too many resets": 1}, Observed: true,
		Methods: []endpoint.Method{{Name: "/a/B", Started: 10, Active: 1, Codes: map[string]uint64{"OK": 8, "Internal": 1}, Seconds: 0.5}}}
}

func TestRegisterOfEndpoints(t *testing.T) {
	source := debug.NewRegistry()
	source.AddEndpoints(stub{"x"})
	m := &floatMeter{}
	r, err := RegisterOf(m, source)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Unregister()
	o := floats{values: map[string]float64{}}
	if err := m.callback(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]float64{ // attributes are in the order of their names
		"tarn.endpoint.connections server x":           3,
		"tarn.endpoint.refused server x":               7,
		"tarn.endpoint.ended server x too many resets": 1,
		"tarn.endpoint.calls Internal server x /a/B":   1,
		"tarn.endpoint.calls_active server x /a/B":     1,
		"tarn.endpoint.call server x /a/B":             0.5,
	} {
		if got, ok := o.values[key]; !ok || got != want {
			t.Errorf("%s is %v (%v), not %v", key, got, ok, want)
		}
	}
}
