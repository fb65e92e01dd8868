package bench

import (
	"html/template"

	"github.com/tarn-go/tarn/internal/plot"
)

// chart is a bar chart of one metric of a Case: a bar for each contestant.
type chart struct {
	Label string
	Hint  string // which way is better, and the kind of the scale
	Bars  template.HTML
}

// charts returns the charts of c: its ratio metric first, with the turns of each contestant. A metric that is 0 everywhere has none.
func (c *Case) charts() []chart {
	var out []chart
	for i, m := range c.Metrics {
		if i > 0 && !m.charted() {
			continue
		}
		var bars []plot.Bar
		for _, r := range c.Rows {
			v := m.visible(r)
			b := plot.Bar{Name: r.Name, Value: v, Text: m.Unit.format(v)}
			if r.Kind == Tarn {
				b.Class = "ours"
			}
			if i == 0 {
				b.Turns = r.Turns
			}
			bars = append(bars, b)
		}
		if drawn, scale := plot.Bars(bars); drawn != "" {
			out = append(out, chart{m.Label, string(m.Better) + " is better; " + scale + " scale", template.HTML(drawn)})
		}
	}
	return out
}

// charted reports whether m gets a chart; the others are in the table.
func (m Metric) charted() bool { return m.Key != "allocs" && m.Key != "p50" }

// visible is r's value of m, or 0 where the table prints it as 0: such a value would set the range of a
// logarithmic scale.
func (m Metric) visible(r Row) float64 {
	v := r.Values[m.Key]
	if m.Unit.format(v) == m.Unit.format(0) {
		return 0
	}
	return v
}
