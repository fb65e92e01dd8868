package plot

import (
	"math"
	"sort"

	"github.com/tarn-go/tarn/sizing"
)

// Frame is the drawing's own size in units of its view box. Text keeps its size in those units, so a
// page shows a narrow frame on a phone rather than a wide one made small.
type Frame struct{ Width, Height float64 }

// margins inside a frame.
const (
	top, bottom, left, right = 22, 24, 4, 4
)

// column gathers the sizes that share one bar.
type column struct {
	lo, hi                          float64
	gets, asked, handed, unpooledIn float64
}

// Sizes draws what each size was asked for in bytes and what ladder adds to it: one bar for each step
// of a logarithmic axis, the bytes asked for below and the bytes wasted above, with the ladder's rungs
// through them. Requests above the ladder have a bar of their own class, "over". Peak is the height of
// the axis in bytes, so that two ladders can be compared; 0 takes this drawing's own highest bar, which
// [Highest] returns.
func Sizes(h sizing.Histogram, ladder []int, f Frame, peak float64, label string) string {
	cols := columns(h, ladder, f)
	if len(cols) == 0 {
		return ""
	}
	if peak <= 0 {
		peak = highest(cols)
	}
	lo, hi := math.Log2(cols[0].lo), math.Log2(cols[len(cols)-1].hi)
	x := func(size float64) float64 {
		return left + (math.Log2(size)-lo)/(hi-lo)*(f.Width-left-right)
	}
	floor := f.Height - bottom
	y := func(bytes float64) float64 { return floor - bytes/peak*(floor-top) }

	var s svg
	s.addf(`<svg class="sizes" viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">`, f.Width, f.Height, label)
	drawAxis(&s, lo, hi, x, f)
	for _, r := range ladder {
		if v := float64(r); v >= cols[0].lo && v <= cols[len(cols)-1].hi {
			s.line("rung", x(v), top-6, x(v), floor)
		}
	}
	for _, c := range cols {
		if c.gets == 0 {
			continue
		}
		x0, w := x(c.lo)+0.5, x(c.hi)-x(c.lo)-1
		s.addf(`<g class="col"><title>%s to %s: %s gets, %s asked for, %s wasted</title>`,
			Bytes(c.lo), Bytes(c.hi), Count(c.gets), Bytes(c.asked), Bytes(c.handed-c.asked))
		// A value above zero has a bar that can be seen.
		s.rect("hit", x0, top, w, floor-top)
		s.rect("asked", x0, y(c.asked), w, max(floor-y(c.asked), 0.6))
		s.rect("wasted", x0, y(c.handed), w, y(c.asked)-y(c.handed))
		s.rect("over", x0, y(c.handed+c.unpooledIn), w, y(c.handed)-y(c.handed+c.unpooledIn))
		s.addf(`</g>`)
	}
	drawRungs(&s, ladder, cols, x)
	s.addf(`</svg>`)
	return s.b.String()
}

// Highest returns the tallest bar, in bytes, that [Sizes] would draw.
func Highest(h sizing.Histogram, ladder []int, f Frame) float64 {
	return highest(columns(h, ladder, f))
}

func highest(cols []column) float64 {
	peak := 1.0
	for _, c := range cols {
		peak = max(peak, c.handed+c.unpooledIn)
	}
	return peak
}

// columns spreads the sizes over the axis: whole doublings, and as many steps in each as there is room for.
func columns(h sizing.Histogram, ladder []int, f Frame) []column {
	least, most := math.Inf(1), 0.0
	for _, s := range h.Sizes {
		if s.Count > 0 && s.Size > 0 {
			least, most = min(least, float64(s.Size)), max(most, float64(s.Size))
		}
	}
	if most == 0 {
		return nil
	}
	lo := math.Floor(math.Log2(least) - 1e-9)
	hi := max(math.Ceil(math.Log2(most)), lo+2)
	steps := min(max(int((f.Width-left-right)/(hi-lo)/8.5), 1), 16)
	cols := make([]column, int(hi-lo)*steps)
	for i := range cols {
		cols[i].lo = math.Exp2(lo + float64(i)/float64(steps))
		cols[i].hi = math.Exp2(lo + float64(i+1)/float64(steps))
	}
	for _, s := range h.Sizes {
		if s.Count == 0 || s.Size < 1 {
			continue
		}
		// A size on a step's upper edge belongs below it, as a class of that size serves it.
		i := int(math.Ceil((math.Log2(float64(s.Size))-lo)*float64(steps)-1e-9)) - 1
		c := &cols[min(max(i, 0), len(cols)-1)]
		n := float64(s.Count)
		c.gets += n
		if j := sort.SearchInts(ladder, s.Size); j < len(ladder) {
			c.asked += n * float64(s.Size)
			c.handed += n * float64(ladder[j])
		} else {
			c.unpooledIn += n * float64(s.Size)
		}
	}
	return cols
}

// drawAxis marks powers of two, as many as have room for their label.
func drawAxis(s *svg, lo, hi float64, x func(float64) float64, f Frame) {
	floor := f.Height - bottom
	s.line("axis", left, floor, f.Width-right, floor)
	every := math.Ceil((hi - lo) * 74 / f.Width)
	for e := lo; e <= hi; e += every {
		v := math.Exp2(e)
		anchor := "middle"
		switch {
		case e == lo:
			anchor = "start"
		case e+every > hi:
			anchor = "end"
		}
		s.line("tick", x(v), floor, x(v), floor+4)
		s.text("label", anchor, x(v), f.Height-6, Bytes(v))
	}
}

// drawRungs draws a mark under each class and labels those that have room, from the largest down.
func drawRungs(s *svg, ladder []int, cols []column, x func(float64) float64) {
	next := math.Inf(1)
	for i := len(ladder) - 1; i >= 0; i-- {
		v := float64(ladder[i])
		if v < cols[0].lo || v > cols[len(cols)-1].hi {
			continue
		}
		at := x(v)
		s.addf(`<path class="foot" d="M%.1f %dl-3 -5h6z"/>`, at, top-3)
		name := Bytes(v)
		half := float64(len(name)) * 3.4
		if at+half < next-6 && at-half > 0 {
			anchor, edge := "middle", at-half
			if at+half > x(cols[len(cols)-1].hi) {
				anchor, edge = "end", at-2*half
			}
			s.text("name", anchor, at, top-11, name)
			next = edge
		}
	}
}
