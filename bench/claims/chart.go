package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// chartFile is the file of the chart of the README's table, relative to the page's folder.
const chartFile = "docs/images/first.svg"

// The ratios at the ends of the chart's axis.
const (
	chartLow  = 0.5
	chartHigh = 16.0
)

// layout is a form of the chart, in its own units.
type layout struct {
	file        string // relative to the page's folder
	title       []string
	width       int
	left, right int // the ends of the axis; the medians are right of it
	row         int // the height of a row
	name        int // the base line of a row's name below the row's upper edge
	bar         int // the upper edge of its bar
}

// layouts returns the chart for large windows, with the names left of the bars, and for phones, with the names
// above them: text has at least 11 pixels where the picture is at least 303 wide.
func layouts() []layout {
	return []layout{
		{
			file:  chartFile,
			title: []string{"How many times better Tarn is than the other (log scale; the line is the range over the turns)"},
			width: 760, left: 300, right: 690, row: 30, name: 18, bar: 7,
		},
		{
			file:  "docs/images/first-phone.svg",
			title: []string{"How many times better Tarn is than", "the other (log scale; the line is the", "range over the turns)"},
			width: 330, left: 16, right: 270, row: 46, name: 18, bar: 24,
		},
	}
}

// firstChart draws a row for each comparison of the README's table: how many times better Tarn is than the
// other, on a log axis, with the range over the turns.
func firstChart(r *results, l layout) string {
	rows := firsts()
	top := 36 + 20*len(l.title)
	bottom := top + l.row*len(rows)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="How many times better Tarn is than others, from the table below" font-family="system-ui, sans-serif" font-size="13">
<style>
text { fill: #24292f } .grid { stroke: #d0d7de } .one { stroke: #57606a } .win { fill: #1a7f64 } .loss { fill: #b35900 } .even { fill: #57606a } .range { stroke: #24292f; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .grid { stroke: #30363d } .one { stroke: #8b949e } .win { fill: #3fb68f } .loss { fill: #e3893b } .even { fill: #8b949e } .range { stroke: #e6edf3 } }
</style>
`, l.width, bottom+16)
	for i, line := range l.title {
		fmt.Fprintf(&b, `<text x="8" y="%d" font-weight="600">%s</text>
`, 20+20*i, line)
	}
	for v := chartLow; v <= chartHigh; v *= 2 {
		class := "grid"
		if v == 1 {
			class = "one"
		}
		fmt.Fprintf(&b, `<line class="%s" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/><text x="%.1f" y="%d" text-anchor="middle" font-size="12">%g×</text>
`, class, l.at(v), l.at(v), top-6, bottom, l.at(v), top-12, v)
	}
	for i, f := range rows {
		y := top + l.row*i
		fmt.Fprintf(&b, `<text x="8" y="%d">%s</text>
`, y+l.name, html.EscapeString(f.mark))
		median, low, high, ok := f.better(r)
		if !ok {
			fmt.Fprintf(&b, `<text x="%d" y="%d">not measured</text>
`, l.left, y+l.bar+11)
			continue
		}
		class := "even" // 1 is within the range
		switch {
		case low > 1:
			class = "win"
		case high < 1:
			class = "loss"
		}
		from, to := min(l.at(median), l.at(1)), max(l.at(median), l.at(1))
		fmt.Fprintf(&b, `<rect class="%s" x="%.1f" y="%d" width="%.1f" height="14" rx="2"/><line class="range" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/><text x="%d" y="%d">%.2f×</text>
`, class, from, y+l.bar, max(to-from, 1), l.at(low), l.at(high), y+l.bar+7, y+l.bar+7, l.right+10, y+l.bar+11, median)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// at is where a ratio is on the axis.
func (l layout) at(ratio float64) float64 {
	v := min(max(ratio, chartLow), chartHigh)
	return float64(l.left) + float64(l.right-l.left)*math.Log(v/chartLow)/math.Log(chartHigh/chartLow)
}

// better returns how many times better Tarn is, and the range of that over the turns.
func (f first) better(r *results) (median, low, high float64, ok bool) {
	unit := f.bar.unit
	if unit == "" {
		unit = "ns/op"
	}
	ours, ok := r.median(f.bar.bench, "tarn", unit)
	theirs, okPeer := r.median(f.bar.bench, f.bar.peer, unit)
	if !ok || !okPeer || ours <= 0 || theirs <= 0 {
		return 0, 0, 0, false
	}
	low, high = f.bar.bounds(r, unit)
	switch f.bar.sense {
	case timesMore:
		median = ours / theirs
	case timesTheirs:
		median, low, high = theirs/ours, 1/high, 1/low
	default:
		median = theirs / ours
	}
	return median, low, high, true
}
