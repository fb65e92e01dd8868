package bench

import (
	"math"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{9, 1, 2}, 2}} {
		if got := median(c.in); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.in, got, c.want)
		}
	}
}

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		better          Better
		own, theirs, is float64
	}{{Lower, 10, 20, 2}, {Lower, 20, 10, 0.5}, {Higher, 20, 10, 2}, {Higher, 10, 0, 0}} {
		k := Case{
			Metrics: []Metric{{"m", "m", Count, c.better}},
			Rows: []Row{
				{Name: "peer", Kind: Peer, Values: map[string]float64{"m": c.theirs}},
				{Name: "tarn", Kind: Tarn, Values: map[string]float64{"m": c.own}},
			},
		}
		k.compare()
		if k.Rows[0].Ahead != c.is || k.Rows[1].Ahead != 0 {
			t.Errorf("%+v: ahead %v and %v", c, k.Rows[0].Ahead, k.Rows[1].Ahead)
		}
	}
}

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		u    Unit
		v    float64
		want string
	}{
		{Nanoseconds, 2.34, "2.3 ns"}, {Nanoseconds, 999, "999 ns"}, {Nanoseconds, 123456, "123 µs"},
		{Nanoseconds, 2.5e7, "25 ms"}, {Bytes, 0, "0 B"}, {Bytes, 9999, "9.8 KiB"}, {Bytes, 20 << 10, "20 KiB"},
		{Bytes, 33 << 20, "33 MiB"}, {Count, 0.001, "0"}, {Count, 1.5, "1.50"}, {Count, 12345.6, "12346"},
	} {
		if got := c.u.format(c.v); got != c.want {
			t.Errorf("%v %v: %q, want %q", c.v, c.u, got, c.want)
		}
	}
}

func TestLatencies(t *testing.T) {
	var l latencies
	if l.quantile(0.5) != 0 {
		t.Error("a quantile of nothing")
	}
	r := rand.New(rand.NewSource(1))
	var all []time.Duration
	for range 10000 {
		d := time.Duration(math.Exp(r.Float64() * 20))
		all = append(all, d)
		l.add(d)
	}
	l.add(math.MaxInt64)
	l.add(-1)
	all = append(all, math.MaxInt64, 0)
	slices.Sort(all)
	for _, q := range []float64{0, 0.01, 0.5, 0.99, 1} {
		want := all[int(q*float64(len(all)-1))]
		if got := l.quantile(q); got < want || float64(got) > float64(want)*17/16+1 {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
}

func TestCharts(t *testing.T) {
	c := Case{
		Title:   `<case> & "quotes"`,
		Metrics: []Metric{{"a", "a", Nanoseconds, Lower}, {"b", "b", Count, Higher}, {"zero", "zero", Count, Lower}},
		Rows: []Row{
			{Name: "tarn", Kind: Tarn, Turns: []float64{1, 2}, Values: map[string]float64{"a": 1.5, "b": 10}},
			{Name: "another", Kind: Peer, Turns: []float64{1000}, Values: map[string]float64{"a": 1000, "b": 5}},
		},
	}
	c.compare()
	charts := c.charts()
	if len(charts) != 2 {
		t.Fatalf("%d charts: a metric that is 0 everywhere has none", len(charts))
	}
	if !strings.Contains(charts[0].Hint, "logarithmic") || strings.Contains(charts[1].Hint, "logarithmic") {
		t.Errorf("hints %q and %q", charts[0].Hint, charts[1].Hint)
	}
	var page strings.Builder
	rep := Report{Sections: []Section{{Title: "s", Cases: []Case{c}}}}
	if err := rep.writeHTML(&page); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(page.String(), "<case>") {
		t.Error("a title was not escaped")
	}
}
