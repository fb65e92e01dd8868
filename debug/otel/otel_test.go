package otel

import (
	"context"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/embedded"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/debug"
	"github.com/tarn-go/tarn/debug/internal/metrics"
	"github.com/tarn-go/tarn/tarntest"
)

// meter is a meter that remembers what is registered and can collect it.
type meter struct {
	noop.Meter
	names    []string
	callback metric.Callback
}

// counter and gauge are instruments with their name.
type counter struct {
	noop.Int64ObservableCounter
	name string
}
type gauge struct {
	noop.Int64ObservableUpDownCounter
	name string
}

func (m *meter) Int64ObservableCounter(name string, _ ...metric.Int64ObservableCounterOption) (metric.Int64ObservableCounter, error) {
	m.names = append(m.names, name)
	return counter{name: name}, nil
}

func (m *meter) Int64ObservableUpDownCounter(name string, _ ...metric.Int64ObservableUpDownCounterOption) (metric.Int64ObservableUpDownCounter, error) {
	m.names = append(m.names, name)
	return gauge{name: name}, nil
}

func (m *meter) RegisterCallback(f metric.Callback, _ ...metric.Observable) (metric.Registration, error) {
	m.callback = f
	return noop.Registration{}, nil
}

// observer takes values by instrument and attributes.
type observer struct {
	embedded.Observer
	values map[string]int64
}

func (o observer) ObserveFloat64(metric.Float64Observable, float64, ...metric.ObserveOption) {}

func (o observer) ObserveInt64(i metric.Int64Observable, v int64, options ...metric.ObserveOption) {
	key := ""
	switch i := i.(type) {
	case counter:
		key = i.name
	case gauge:
		key = i.name
	}
	set := metric.NewObserveConfig(options).Attributes()
	for _, a := range set.ToSlice() {
		key += " " + a.Value.AsString()
	}
	o.values[key] = v
}

func TestRegister(t *testing.T) {
	p, err := tarn.NewPool(tarn.PoolConfig{Name: "one", Classes: []int{4096, 65536}})
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		p.Get(5000).Free()
	}
	held := p.Get(4000)
	defer held.Free()
	m := &meter{}
	r, err := RegisterOf(m, debug.NewRegistry(p, nil), WithClasses())
	if err != nil {
		t.Fatal(err)
	}
	o := observer{values: map[string]int64{}}
	if err := m.callback(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]int64{"tarn.pool.gets one": 101, "tarn.pool.class_gets 65536 one": 100, "tarn.pool.class_in_use_buffers 4096 one": 1, "tarn.pool.in_use_buffers one": 1} {
		if got, ok := o.values[key]; !ok || got != want {
			t.Errorf("%s: got %d, %v; want %d", key, got, ok, want)
		}
	}
	// Unseen bytes are estimated from requests sampled at random, so the figure varies from run to run.
	if got, ok := o.values["tarn.pool.pinned_unseen one"]; !ok || got < 0 || got > 4096 {
		t.Errorf("unseen bytes: got %d, %v; want at most those of the slab in use", got, ok)
	}
	slices.Sort(m.names)
	if n := len(slices.Compact(m.names)); n < 15 || n != len(m.names) {
		t.Errorf("%d names, %d distinct: %v", len(m.names), n, m.names)
	}
	if err := r.Unregister(); err != nil {
		t.Error(err)
	}
}

// A name is published once in the process, until the registration that has it is given up.
func TestEqualNames(t *testing.T) {
	pool := func() *tarn.Pool {
		p, err := tarn.NewPool(tarn.PoolConfig{Name: "equal"})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	o := observer{values: map[string]int64{}}
	register := func(pools ...*tarn.Pool) Registration {
		m := &meter{}
		r, err := Register(m, pools...)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.callback(context.Background(), o); err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := register(pool(), pool())
	second := register(pool())
	for _, name := range []string{"equal", "equal 2", "equal 3"} {
		if _, ok := o.values["tarn.pool.in_use "+name]; !ok {
			t.Errorf("%s is not published: %v", name, o.values)
		}
	}
	if err := first.Unregister(); err != nil {
		t.Error(err)
	}
	clear(o.values)
	third := register(pool())
	if _, ok := o.values["tarn.pool.in_use equal"]; !ok {
		t.Errorf("the name is not free: %v", o.values)
	}
	for _, r := range []Registration{second, third} {
		if err := r.Unregister(); err != nil {
			t.Error(err)
		}
	}
}

// TestWithoutClasses: where it is not asked for, no instrument is left that has a point for each size class.
func TestWithoutClasses(t *testing.T) {
	m := &meter{}
	if _, err := RegisterOf(m, debug.NewRegistry(tarntest.NewPool(t))); err != nil {
		t.Fatal(err)
	}
	for _, class := range metrics.Classes() {
		if slices.Contains(m.names, Name(class.Name)) {
			t.Errorf("%s is registered", class.Name)
		}
	}
	if !slices.Contains(m.names, Name(metrics.PinnedName)) {
		t.Error("the pool's own instruments are left out, too")
	}
}
