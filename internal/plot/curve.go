package plot

import (
	"fmt"
	"math"

	"github.com/tarn-go/tarn/sizing"
)

// Mark is a ladder shown on the curve: its number of classes, 0 for none, and its share of waste.
type Mark struct {
	Classes int
	Share   float64
}

// Marks are what is shown beside the curve.
type Marks struct {
	Knee     int  // the number of classes beyond which returns diminish
	Now      Mark // the ladder in force
	Proposed Mark // the ladder to take in its place
}

// labelGap is the distance from the label of an axis to the figure.
const labelGap = 6

// percentWidth is the most that text, a percentage, takes in the fonts of the style sheet: 0.64 em for a digit and 0.95 em
// for the sign, of 12.5 pixels.
func percentWidth(text string) float64 { return 8*float64(len(text)) + 4 }

// Curve draws the least share of waste against the number of classes, the knee on it, and where the
// ladders in force and proposed stand.
func Curve(curve []sizing.Point, m Marks, f Frame) string {
	if len(curve) == 0 {
		return ""
	}
	most := float64(max(curve[len(curve)-1].Classes, m.Now.Classes, m.Proposed.Classes, 2))
	share := max(m.Now.Share, m.Proposed.Share)
	for _, p := range curve[min(2, len(curve)-1):] {
		share = max(share, p.Share)
	}
	for _, p := range curve {
		if p.Classes == m.Knee {
			share = max(share, p.Share)
		}
	}
	share = max(share*1.15, 0.01)
	floor := f.Height - bottom
	step, padLeft := shareStep(share), 0.0
	for v := 0.0; v <= share; v += step {
		padLeft = max(padLeft, percentWidth(Percent(v))+labelGap)
	}
	x := func(k float64) float64 { return padLeft + (k-1)/(most-1)*(f.Width-padLeft-12) }
	y := func(v float64) float64 { return max(floor-v/share*(floor-top), 2) }

	var s svg
	s.addf(`<svg class="curve" viewBox="0 0 %.0f %.0f" role="img" aria-label="Waste against the number of classes">`, f.Width, f.Height)
	for i := 0; float64(i)*step <= share; i++ {
		v := float64(i) * step
		s.line("grid", padLeft, y(v), f.Width-right, y(v))
		s.text("label", "end", padLeft-labelGap, y(v)+4, Percent(v))
	}
	path := "M"
	var lines []box // around each part of the path
	for i, p := range curve {
		if i > 0 {
			path += "L"
			lines = append(lines, box{x(float64(curve[i-1].Classes)), y(curve[i-1].Share), x(float64(p.Classes)), y(p.Share)})
		}
		path += fmt.Sprintf("%.1f %.1f", x(float64(p.Classes)), y(p.Share))
	}
	s.addf(`<path class="under" d="%sL%.1f %.1fL%.1f %.1fz"/>`, path, x(float64(curve[len(curve)-1].Classes)), floor, x(float64(curve[0].Classes)), floor)
	s.addf(`<path class="best" d="%s"/>`, path)
	for k := 1; k <= int(most); k = nextTick(k, int(most)) {
		s.text("label", "middle", x(float64(k)), f.Height-6, fmt.Sprint(k))
	}
	var points []point
	for _, p := range curve {
		if p.Classes == m.Knee && p.Classes != m.Proposed.Classes {
			text := Classes(p.Classes) + ", " + Percent(p.Share)
			points = append(points, point{x(float64(p.Classes)), y(p.Share), "knee", "diminishing returns beyond " + text,
				[]string{text + ": diminishing returns", text}})
		}
	}
	mark := func(class, name string, m Mark) {
		if m.Classes > 0 {
			text := fmt.Sprintf("%s: %s, %s", name, Classes(m.Classes), Percent(m.Share))
			points = append(points, point{x(float64(m.Classes)), y(m.Share), class, text, []string{text}})
		}
	}
	mark("proposed", "proposed", m.Proposed)
	mark("present", "now", m.Now)
	s.points(points, box{padLeft, 0, f.Width, floor}, lines)
	s.addf(`</svg>`)
	return s.b.String()
}

// shareStep is the distance of the ticks on an axis from 0 to a share: 1, 2 or 5 times a power of ten, as much as makes
// two to four ticks above 0.
func shareStep(share float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(share)))
	switch n := share / unit; {
	case n < 2:
		return unit / 2
	case n < 5:
		return unit
	default:
		return 2 * unit
	}
}

// nextTick steps along the axis: 1, then round numbers, about eight of them.
func nextTick(k, most int) int {
	step := max((most+7)/8, 1)
	if step > 2 {
		step = (step + 3) / 4 * 4
	}
	if k == 1 && step > 1 {
		return step
	}
	return k + step
}

// Classes writes how many size classes there are: "1 class", "24 classes".
func Classes(n int) string {
	if n == 1 {
		return "1 class"
	}
	return fmt.Sprintf("%d classes", n)
}
