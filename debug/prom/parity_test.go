package prom

import (
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarn-go/tarn/debug/internal/scrape"
)

// TestSameAsThePage: a collector has the families, helps, types, labels and values that the page's own metrics have.
func TestSameAsThePage(t *testing.T) {
	source := scrape.Source(t)
	registry := prometheus.NewPedanticRegistry()
	register(t, registry, NewOf(source, WithClasses()))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	page := scrape.Read(t, source)
	got := scrape.Page{Families: map[string]scrape.Family{}, Samples: map[string]float64{}}
	for _, f := range families {
		got.Families[f.GetName()] = scrape.Family{Type: strings.ToLower(f.GetType().String()), Help: f.GetHelp()}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			h := m.GetHistogram()
			if h == nil {
				got.Samples[scrape.Key(f.GetName(), labels)] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
				continue
			}
			got.Samples[scrape.Key(f.GetName()+"_sum", labels)] = h.GetSampleSum()
			got.Samples[scrape.Key(f.GetName()+"_count", labels)] = float64(h.GetSampleCount())
			labels["le"] = "+Inf"
			got.Samples[scrape.Key(f.GetName()+"_bucket", labels)] = float64(h.GetSampleCount())
			for _, b := range h.GetBucket() {
				labels["le"] = strconv.FormatFloat(b.GetUpperBound(), 'f', -1, 64)
				got.Samples[scrape.Key(f.GetName()+"_bucket", labels)] = float64(b.GetCumulativeCount())
			}
		}
	}
	scrape.Compare(t, got, page)
}
