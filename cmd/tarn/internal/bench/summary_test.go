package bench

import (
	"strings"
	"testing"
)

func TestSummary(t *testing.T) {
	r := &Report{Sections: []Section{{Title: "Core", Cases: []Case{
		{Title: "one", Metrics: []Metric{{Key: "ns", Label: "time", Unit: Nanoseconds, Better: Lower}}, Rows: []Row{
			{Name: "tarn", Kind: Tarn, Values: map[string]float64{"ns": 10}, Turns: []float64{9, 10, 11}},
			{Name: "peer", Kind: Peer, Values: map[string]float64{"ns": 30}, Turns: []float64{36, 30, 22}},
			{Name: "fast", Kind: Peer, Values: map[string]float64{"ns": 5}, Turns: []float64{5, 5, 5}},
		}},
		{Title: "two", Metrics: []Metric{{Key: "n", Label: "calls", Unit: Count, Better: Higher}}, Rows: []Row{
			{Name: "tarn", Kind: Tarn, Values: map[string]float64{"n": 100}},
			{Name: "peer", Kind: Peer, Values: map[string]float64{"n": 50}},
		}},
	}}}}
	for i := range r.Sections[0].Cases {
		r.Sections[0].Cases[i].compare()
	}
	s := r.summary()
	if len(s.Rows) != 3 || s.Ahead != 2 || s.Behind != 1 {
		t.Fatalf("%+v", s)
	}
	if c := s.Rows[0]; c.Ahead != 3 || c.Low != 2 || c.High != 4 || c.Text() != "0.33× (0.25–0.50)" {
		t.Errorf("%+v %s", c, c.Text())
	}
	if c := s.Rows[2]; c.Text() != "2.00×" {
		t.Errorf("without turns: %s", c.Text())
	}
	var page, text strings.Builder
	if err := r.writeHTML(&page); err != nil {
		t.Fatal(err)
	}
	if err := r.writeText(&text); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(page.String(), "behind in 1") || strings.Index(page.String(), "Summary") > strings.Index(page.String(), "<h2>Core") {
		t.Error("the page does not begin with the summary")
	}
	if !strings.Contains(text.String(), "ahead in 2 of 3") || !strings.Contains(text.String(), "one, against fast: 2.00× (1.80–2.20) the time\n") {
		t.Errorf("%s", text.String())
	}
}

func TestBusyMachineIsReported(t *testing.T) {
	if busy := (Machine{Cores: 2, Load: 0.4}).Busy(); busy != "" {
		t.Errorf("a quiet machine: %q", busy)
	}
	r := &Report{Machine: Machine{Cores: 2, Load: 17.6}}
	var text, page strings.Builder
	if err := r.writeText(&text); err != nil {
		t.Fatal(err)
	}
	if err := r.writeHTML(&page); err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{text.String(), page.String()} {
		if !strings.Contains(out, "busy when this began (load 17.6 on 2 cores)") {
			t.Errorf("the load is not reported in\n%s", out)
		}
	}
}
