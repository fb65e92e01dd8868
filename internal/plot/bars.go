package plot

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Bar is one line of a bar chart.
type Bar struct {
	Name  string
	Class string // "ours" is coloured
	Value float64
	Text  string    // the value with its unit
	Turns []float64 // single measurements of which Value is the median; dots
}

// logFrom is the ratio of the largest to the smallest value from which a bar on a linear scale would be too short to see.
const logFrom = 40

// Bars draws bars below each other, and returns the kind of their scale: "linear" or "logarithmic". The chart is empty if all values
// are 0. Unlike figures that have an axis it is HTML: its names may have any length.
func Bars(bars []Bar) (chart, scale string) {
	var values []float64
	for _, b := range bars {
		values = append(append(values, b.Value), b.Turns...)
	}
	s := newScale(values)
	if s.max == 0 {
		return "", ""
	}
	var out strings.Builder
	out.WriteString(`<div class="bars">`)
	for _, b := range bars {
		fmt.Fprintf(&out, `<span>%s</span><span class="room"><i class="%s" style="width:%.1f%%"></i>`, html.EscapeString(b.Name), html.EscapeString(b.Class), s.at(b.Value))
		for _, t := range b.Turns {
			fmt.Fprintf(&out, `<u style="left:%.1f%%"></u>`, s.at(t))
		}
		fmt.Fprintf(&out, `</span><span class="n">%s</span>`, html.EscapeString(b.Text))
	}
	out.WriteString("</div>\n")
	if s.log {
		return out.String(), "logarithmic"
	}
	return out.String(), "linear"
}

// scale maps values to per cent of the room for bars.
type scale struct {
	min, max float64 // of the values above 0
	log      bool
}

func newScale(values []float64) scale {
	s := scale{min: math.Inf(1)}
	for _, v := range values {
		s.max = max(s.max, v)
		if v > 0 {
			s.min = min(s.min, v)
		}
	}
	s.log = s.max > 0 && s.max/s.min >= logFrom
	return s
}

// at returns the length of v. On a logarithmic scale the smallest value has a tenth of the largest's.
func (s scale) at(v float64) float64 {
	switch {
	case v <= 0:
		return 0
	case s.log:
		return 100 * (0.1 + 0.9*(math.Log(v)-math.Log(s.min))/(math.Log(s.max)-math.Log(s.min)))
	default:
		return 100 * v / s.max
	}
}
