package prom

import (
	rtdebug "runtime/debug"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/debug"
	"github.com/tarn-go/tarn/debug/endpoint"
)

func TestCollector(t *testing.T) {
	// What slabs have counted that a collection has just found unreachable is in no sum until their finalizers have run.
	defer rtdebug.SetGCPercent(rtdebug.SetGCPercent(-1))
	p, err := tarn.NewPool(tarn.PoolConfig{Name: "one", Classes: []int{4096, 65536}})
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		p.Get(5000).Free()
	}
	held := p.Get(100000)
	defer held.Free()
	quiet, err := tarn.NewPool(tarn.PoolConfig{Name: "two"})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry() // checks each metric against its description
	register(t, registry, NewOf(debug.NewRegistry(p, nil, quiet), WithClasses()))
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
		}
	}
	for key, want := range map[string]float64{
		"tarn_pool_class_gets_total 65536 one":    100,
		"tarn_pool_class_gets_total oversize one": 1,
		"tarn_pool_in_use_buffers one":            1,
		"tarn_pool_in_use_buffers two":            0,
	} {
		if got, ok := found[key]; !ok || got != want {
			t.Errorf("%s: got %v, %v; want %v", key, got, ok, want)
		}
	}
	if _, ok := found["tarn_pool_class_gets_total 4096 one"]; ok {
		t.Error("a class never asked for is published")
	}
}

// Two collectors share a registry, and a pool that is added later appears.
func TestCollectorsShareARegistry(t *testing.T) {
	pools := debug.NewRegistry()
	registry := prometheus.NewPedanticRegistry()
	register(t, registry, NewOf(pools))
	register(t, registry, NewOf(debug.NewRegistry(newPool(t, "first")), WithClasses()))
	pools.Add(newPool(t, "later"))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				seen[f.GetName()+" "+l.GetName()+"="+l.GetValue()] = true
			}
		}
	}
	for _, want := range []string{
		"tarn_pool_in_use_bytes pool=first", "tarn_pool_in_use_bytes pool=later", "tarn_pool_gets_total pool=later", "tarn_pool_class_gets_total pool=first",
		"tarn_pool_pinned_unseen_bytes pool=first", "tarn_pool_requested_size_bytes pool=later",
	} {
		if !seen[want] {
			t.Errorf("%s is not published", want)
		}
	}
	if seen["tarn_pool_class_gets_total pool=later"] {
		t.Error("a collector without classes publishes them")
	}
}

// register registers c, and frees its names at the end of the test.
func register(t *testing.T, registry *prometheus.Registry, c *Collector) {
	t.Helper()
	t.Cleanup(c.names.Close)
	if err := registry.Register(c); err != nil {
		t.Fatal(err)
	}
}

func newPool(t *testing.T, name string) *tarn.Pool {
	t.Helper()
	p, err := tarn.NewPool(tarn.PoolConfig{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	p.Get(1000).Free()
	return p
}

// Pools of one name, of none, and one pool twice, are kept apart in one registry, and servers too.
func TestCollectorsOfEqualNames(t *testing.T) {
	source := debug.NewRegistry(newPool(t, "same"), newPool(t, "same"), newPool(t, ""))
	source.AddEndpoints(stub{"equal"})
	again := debug.NewRegistry(source.Pools()[1], newPool(t, ""), newPool(t, "same 2"))
	again.AddEndpoints(stub{"equal"})
	registry := prometheus.NewPedanticRegistry()
	for _, c := range []*Collector{NewOf(source), NewOf(again), New(newPool(t, ""))} {
		register(t, registry, c)
	}
	for range 2 { // a second scrape finds the same names
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		names := map[string][]string{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				names[f.GetName()] = append(names[f.GetName()], m.GetLabel()[0].GetValue())
			}
		}
		for family, want := range map[string]int{"tarn_pool_in_use_bytes": 7, "tarn_pool_requested_size_bytes": 7, "tarn_endpoint_connections": 2} {
			list := slices.Sorted(slices.Values(names[family]))
			if len(list) != want || len(slices.Compact(list)) != want {
				t.Errorf("%s: %q, not %d distinct", family, list, want)
			}
		}
	}
}

// bytesOfAPeer is a server that has counted a method whose name a client chose.
type bytesOfAPeer struct{}

func (bytesOfAPeer) Endpoint() endpoint.State {
	return endpoint.State{Kind: "server", Name: "\xff", Methods: []endpoint.Method{{Name: "/x/\xff", Started: 1}, {Name: "/x/\xfe", Started: 2}}}
}

// TestLabelsOfAnyBytes: names that are not UTF-8 do not end the program, whose registry calls Collectors on its own goroutines. Those that
// are equal without their invalid bytes are kept apart: a registry publishes nothing if two series are equal.
func TestLabelsOfAnyBytes(t *testing.T) {
	source := debug.NewRegistry(newPool(t, "\xfe"), newPool(t, "\xff"), newPool(t, "\uFFFD"))
	source.AddEndpoints(bytesOfAPeer{}, &bytesOfAPeer{})
	registry := prometheus.NewPedanticRegistry()
	register(t, registry, NewOf(source))
	families, err := registry.Gather()
	if err != nil || len(families) == 0 {
		t.Errorf("%d families, %v", len(families), err)
	}
}
