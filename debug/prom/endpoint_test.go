package prom

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarn-go/tarn/debug"
	"github.com/tarn-go/tarn/debug/endpoint"
)

// stub is a server with one value of each kind.
type stub struct{ name string }

func (s stub) Endpoint() endpoint.State {
	return endpoint.State{Kind: "server", Name: s.name, Conns: 3, Waiting: 2, Refused: 7,
		GoAwaysSent: map[string]uint64{"NO_ERROR": 5}, Ended: map[string]uint64{"too many resets": 1}, Observed: true,
		Methods: []endpoint.Method{{Name: "/a/B", Started: 10, Active: 1, Codes: map[string]uint64{"OK": 8, "Internal": 1}, Seconds: 0.5,
			Durations: make([]uint64, len(endpoint.Bounds())), Slowest: &endpoint.Slow{Seconds: 0.25, Trace: "4bf92f3577b34da6a3ce929d0e0e4736"}}}}
}

func TestCollectorOfEndpoints(t *testing.T) {
	source := debug.NewRegistry()
	source.AddEndpoints(stub{"x"}, stub{"y"})
	registry := prometheus.NewPedanticRegistry() // checks each metric against its description
	register(t, registry, NewOf(source))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			key := f.GetName()
			for _, l := range m.GetLabel() {
				key += " " + l.GetValue()
			}
			found[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
			for _, b := range m.GetHistogram().GetBucket() {
				if e := b.GetExemplar(); e != nil {
					found[key+" exemplar "+e.GetLabel()[0].GetValue()] = e.GetValue()
				}
			}
		}
	}
	for key, want := range map[string]float64{ // labels are in the order of their names
		"tarn_endpoint_connections server x":                                                          3,
		"tarn_endpoint_waiting server y":                                                              2,
		"tarn_endpoint_refused_total server x":                                                        7,
		"tarn_endpoint_goaways_sent_total NO_ERROR server x":                                          5,
		"tarn_endpoint_ended_total server x too many resets":                                          1,
		"tarn_endpoint_calls_total Internal server x /a/B":                                            1,
		"tarn_endpoint_calls_active server x /a/B":                                                    1,
		"tarn_endpoint_call_duration_seconds server x /a/B exemplar 4bf92f3577b34da6a3ce929d0e0e4736": 0.25,
		"tarn_endpoint_call_seconds_total server x /a/B":                                              0.5,
	} {
		if got, ok := found[key]; !ok || got != want {
			t.Errorf("%s is %v (%v), not %v", key, got, ok, want)
		}
	}
}

// odd is a source of a program's own, with a histogram of other bounds.
type odd struct{}

func (odd) Endpoint() endpoint.State {
	return endpoint.State{Kind: "server", Name: "odd", Methods: []endpoint.Method{{Name: "/a/B", Durations: []uint64{1, 2}}}}
}

func TestSourceWithOtherBounds(t *testing.T) {
	source := debug.NewRegistry()
	source.AddEndpoints(odd{})
	registry := prometheus.NewPedanticRegistry()
	register(t, registry, NewOf(source))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "tarn_endpoint_call_duration_seconds" {
			t.Errorf("a histogram of unknown bounds: %v", f)
		}
	}
}
