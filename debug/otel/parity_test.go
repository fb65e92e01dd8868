package otel

import (
	"context"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/embedded"

	"github.com/tarn-go/tarn/debug/internal/scrape"
)

// catalogue is a meter that keeps descriptions.
type catalogue struct {
	meter
	families map[string]scrape.Family
}

func (c *catalogue) Int64ObservableCounter(name string, o ...metric.Int64ObservableCounterOption) (metric.Int64ObservableCounter, error) {
	c.families[name] = scrape.Family{Type: "counter", Help: metric.NewInt64ObservableCounterConfig(o...).Description()}
	return counter{name: name}, nil
}

func (c *catalogue) Int64ObservableUpDownCounter(name string, o ...metric.Int64ObservableUpDownCounterOption) (metric.Int64ObservableUpDownCounter, error) {
	c.families[name] = scrape.Family{Type: "gauge", Help: metric.NewInt64ObservableUpDownCounterConfig(o...).Description()}
	return gauge{name: name}, nil
}

func (c *catalogue) Float64ObservableCounter(name string, o ...metric.Float64ObservableCounterOption) (metric.Float64ObservableCounter, error) {
	c.families[name] = scrape.Family{Type: "counter", Help: metric.NewFloat64ObservableCounterConfig(o...).Description()}
	return floatCounter{name: name}, nil
}

func (c *catalogue) Float64ObservableUpDownCounter(name string, o ...metric.Float64ObservableUpDownCounterOption) (metric.Float64ObservableUpDownCounter, error) {
	c.families[name] = scrape.Family{Type: "gauge", Help: metric.NewFloat64ObservableUpDownCounterConfig(o...).Description()}
	return floatGauge{name: name}, nil
}

func (c *catalogue) Float64ObservableGauge(name string, o ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	c.families[name] = scrape.Family{Type: "gauge", Help: metric.NewFloat64ObservableGaugeConfig(o...).Description()}
	return floatLevel{name: name}, nil
}

// samples takes the values of all instruments.
type samples struct {
	embedded.Observer
	values map[string]float64
}

func (s samples) ObserveInt64(i metric.Int64Observable, v int64, o ...metric.ObserveOption) {
	name := ""
	switch i := i.(type) {
	case counter:
		name = i.name
	case gauge:
		name = i.name
	}
	s.observe(name, float64(v), o)
}

func (s samples) ObserveFloat64(i metric.Float64Observable, v float64, o ...metric.ObserveOption) {
	name := ""
	switch i := i.(type) {
	case floatCounter:
		name = i.name
	case floatGauge:
		name = i.name
	case floatLevel:
		name = i.name
	}
	s.observe(name, v, o)
}

func (s samples) observe(name string, v float64, o []metric.ObserveOption) {
	labels := map[string]string{}
	set := metric.NewObserveConfig(o).Attributes()
	for _, a := range set.ToSlice() {
		labels[string(a.Key)] = a.Value.AsString()
	}
	s.values[scrape.Key(name, labels)] = v
}

// TestSameAsThePage: a registration has the families, helps, kinds, attributes and values that the page's own metrics have, with
// names as OpenTelemetry writes them. The histogram of sizes is its buckets, a counter with the attribute le; its sum is not there.
func TestSameAsThePage(t *testing.T) {
	source := scrape.Source(t)
	c := &catalogue{families: map[string]scrape.Family{}}
	r, err := RegisterOf(c, source, WithClasses())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Unregister()
	s := samples{values: map[string]float64{}}
	if err := c.callback(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	page := scrape.Read(t, source)
	want := scrape.Page{Families: map[string]scrape.Family{}, Samples: map[string]float64{}}
	for name, f := range page.Families {
		if f.Type == "histogram" {
			f.Type = "counter"
		}
		want.Families[Name(name)] = f
	}
	for key, v := range page.Samples {
		name, labels, _ := strings.Cut(key, "{")
		if _, ok := page.Families[name]; !ok { // of a histogram
			bucket, ok := strings.CutSuffix(name, "_bucket")
			if !ok {
				continue
			}
			name = bucket
		}
		want.Samples[Name(name)+"{"+labels] = v
	}
	scrape.Compare(t, scrape.Page{Families: c.families, Samples: s.values}, want)
}
