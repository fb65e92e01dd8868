package plot

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var placed = regexp.MustCompile(`(?:left|width):([^%;"]*)%`)

// within fails the test unless every place and length of a chart is one of its axis.
func within(t *testing.T, chart string) {
	t.Helper()
	wellFormed(t, "<r>"+strings.ReplaceAll(chart, "&#34;", "&quot;")+"</r>")
	found := placed.FindAllStringSubmatch(chart, -1)
	for _, m := range found {
		if at, err := strconv.ParseFloat(m[1], 64); err != nil || at < 0 || at > 100.01 {
			t.Errorf("%s lies outside of the axis", m[0])
		}
	}
	if len(found) == 0 {
		t.Error("nothing is drawn")
	}
}

func TestBars(t *testing.T) {
	for _, c := range []struct {
		name  string
		bars  []Bar
		scale string
	}{
		{"one", []Bar{{Name: "a", Value: 5, Text: "5 ns"}}, "linear"},
		{"near", []Bar{{Value: 10, Turns: []float64{9, 12}}, {Value: 300}, {Value: 0}}, "linear"},
		{"far apart", []Bar{{Value: 1.5, Turns: []float64{1, 2}}, {Value: 1000}, {Value: 0}}, "logarithmic"},
		{"extremes", []Bar{{Value: math.SmallestNonzeroFloat64}, {Value: 1e300}}, "logarithmic"},
	} {
		chart, scale := Bars(c.bars)
		if scale != c.scale || strings.Count(chart, `class="room"`) != len(c.bars) {
			t.Errorf("%s: %s scale, %s", c.name, scale, chart)
		}
		within(t, chart)
	}
	if chart, scale := Bars([]Bar{{Name: "a"}, {Name: "b"}}); chart != "" || scale != "" {
		t.Errorf("all values are 0: %q, %q", chart, scale)
	}
	if chart, _ := Bars([]Bar{{Name: `<i> & "a"`, Class: `"x`, Text: "<u>", Value: 1}}); strings.Contains(chart, "<i> ") || strings.Contains(chart, `""x`) || strings.Contains(chart, ">u>") {
		t.Errorf("not escaped: %s", chart)
	}
}

func TestRatios(t *testing.T) {
	ratios := []Ratio{
		{Group: "Core", Name: "one", Against: "peer", Text: "3.00× (2.00–4.00)", Median: 3, Low: 2, High: 4},
		{Group: "Core", Name: "one", Against: "fast", Text: "0.50×", Median: 0.5, Low: 0.5, High: 0.5},
		{Group: "RPC", Name: "<two>", Against: "peer", Median: 1, Low: 0.9, High: 1.2},
	}
	chart := Ratios(ratios)
	within(t, chart)
	if strings.Count(chart, "<h3>") != 2 || strings.Count(chart, `class="range lost"`) != 1 || strings.Contains(chart, "<two>") || !strings.Contains(chart, "<b>1×</b>") {
		t.Errorf("got %s", chart)
	}
	ratios[0].High, ratios[1].Low = 9000, 0.01
	chart = Ratios(ratios)
	within(t, chart)
	if n := strings.Count(chart, "<b>"); n > 7 {
		t.Errorf("%d labels do not fit a phone: %s", n, chart)
	}
}

func TestAges(t *testing.T) {
	for counts, parts := range map[[4]int]int{{}: 0, {1}: 1, {0, 0, 0, 5}: 1, {1, 1e6, 1, 1}: 4} {
		chart := Ages(counts)
		wellFormed(t, chart)
		if strings.Count(chart, "<rect") != parts {
			t.Errorf("%v: %s", counts, chart)
		}
	}
}
