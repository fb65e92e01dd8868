package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// chartFile is the file of the chart of the README's table, relative to the page's folder.
const chartFile = "docs/images/first.svg"

// Measures of the chart, in its own units.
const (
	chartWidth = 760
	chartLeft  = 300 // where the plot begins; the names are left of it
	chartRight = 690 // where it ends; the medians are right of it
	chartTop   = 56
	chartRow   = 30
	chartLow   = 0.5 // the ratios at the plot's ends
	chartHigh  = 16.0
)

// firstChart draws a row for each comparison of the README's table: how many times better Tarn is than the
// other, on a log axis, with the range over the turns.
func firstChart(r *results) string {
	rows := firsts()
	bottom := chartTop + chartRow*len(rows)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="How many times better Tarn is than others, from the table below" font-family="system-ui, sans-serif" font-size="13">
<style>
text { fill: #24292f } .grid { stroke: #d0d7de } .one { stroke: #57606a } .win { fill: #1a7f64 } .loss { fill: #b35900 } .even { fill: #57606a } .range { stroke: #24292f; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .grid { stroke: #30363d } .one { stroke: #8b949e } .win { fill: #3fb68f } .loss { fill: #e3893b } .even { fill: #8b949e } .range { stroke: #e6edf3 } }
</style>
<text x="8" y="20" font-weight="600">How many times better Tarn is than the other (log scale; the line is the range over the turns)</text>
`, chartWidth, bottom+16)
	for v := chartLow; v <= chartHigh; v *= 2 {
		class := "grid"
		if v == 1 {
			class = "one"
		}
		fmt.Fprintf(&b, `<line class="%s" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/><text x="%.1f" y="%d" text-anchor="middle" font-size="12">%g×</text>
`, class, at(v), at(v), chartTop-6, bottom, at(v), chartTop-12, v)
	}
	for i, f := range rows {
		y := chartTop + chartRow*i
		fmt.Fprintf(&b, `<text x="8" y="%d">%s</text>
`, y+18, html.EscapeString(f.mark))
		median, low, high, ok := f.better(r)
		if !ok {
			fmt.Fprintf(&b, `<text x="%d" y="%d">not measured</text>
`, chartLeft, y+18)
			continue
		}
		class := "even" // 1 is within the range
		switch {
		case low > 1:
			class = "win"
		case high < 1:
			class = "loss"
		}
		from, to := min(at(median), at(1)), max(at(median), at(1))
		fmt.Fprintf(&b, `<rect class="%s" x="%.1f" y="%d" width="%.1f" height="14" rx="2"/><line class="range" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/><text x="%d" y="%d">%.2f×</text>
`, class, from, y+7, max(to-from, 1), at(low), at(high), y+14, y+14, chartRight+10, y+18, median)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// at is where a ratio is on the axis.
func at(ratio float64) float64 {
	v := min(max(ratio, chartLow), chartHigh)
	return chartLeft + (chartRight-chartLeft)*math.Log(v/chartLow)/math.Log(chartHigh/chartLow)
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
