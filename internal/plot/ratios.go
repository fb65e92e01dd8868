package plot

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Ratio is one line of a chart of ratios: how many times better one thing is than another, below 1 worse.
type Ratio struct {
	Group     string // lines of a group follow each other under its name
	Name      string
	Against   string
	Text      string // the ratio and its range
	Median    float64
	Low, High float64
}

// Ratios draws each ratio as a dot with its range as a bar, all on one logarithmic axis. It is HTML, as [Bars].
func Ratios(ratios []Ratio) string {
	a := ratioAxis{least: 0.5, most: 2}
	for _, r := range ratios {
		a.least, a.most = min(a.least, r.Low), max(a.most, r.High)
	}
	ticks := a.ticks()
	var out strings.Builder
	out.WriteString(`<div class="ratios"><div class="row"><div></div><div class="axis">`)
	for _, t := range ticks {
		fmt.Fprintf(&out, `<i style="left:%.2f%%"><b>%g×</b></i>`, a.at(t), t)
	}
	out.WriteString(`</div><div></div></div>`)
	group := ""
	for _, r := range ratios {
		if r.Group != group {
			group = r.Group
			fmt.Fprintf(&out, `<h3>%s</h3>`, html.EscapeString(group))
		}
		fmt.Fprintf(&out, `<div class="row"><div>%s <small>against %s</small></div><div class="axis">`, html.EscapeString(r.Name), html.EscapeString(r.Against))
		for _, t := range ticks {
			class := ""
			if t == 1 {
				class = ` class="one"`
			}
			fmt.Fprintf(&out, `<i%s style="left:%.2f%%"></i>`, class, a.at(t))
		}
		lost := ""
		if r.Median < 1 {
			lost = " lost"
		}
		// A range of nothing can be seen, too.
		fmt.Fprintf(&out, `<span class="range%s" style="left:%.2f%%;width:%.2f%%"></span><span class="median%s" style="left:%.2f%%"></span></div><div class="text">%s</div></div>`,
			lost, a.at(r.Low), max(a.at(r.High)-a.at(r.Low), 0.4), lost, a.at(r.Median), html.EscapeString(r.Text))
	}
	out.WriteString("</div>\n")
	return out.String()
}

// ratioAxis is a logarithmic axis.
type ratioAxis struct{ least, most float64 }

// at is where a ratio lies on the axis, in per cent of its length.
func (a ratioAxis) at(ratio float64) float64 {
	return 100 * math.Log(ratio/a.least) / math.Log(a.most/a.least)
}

// ticks are the ratios that are marked: as many as have room on a phone's screen.
func (a ratioAxis) ticks() (marked []float64) {
	all := []float64{0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100}
	if a.most > 50*a.least {
		all = []float64{0.01, 0.1, 1, 10, 100, 1000, 10000}
	}
	for _, t := range all {
		if t >= a.least*0.99 && t <= a.most*1.01 {
			marked = append(marked, t)
		}
	}
	return marked
}
