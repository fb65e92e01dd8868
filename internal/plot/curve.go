package plot

import (
	"fmt"
	"math"

	"github.com/tarn-go/tarn/sizing"
)

// Mark is a ladder shown on the curve: its number of classes and its share of waste.
type Mark struct {
	Classes int
	Share   float64
}

// Curve draws the least share of waste against the number of classes, the knee on it, and where the
// present ladder stands above it.
func Curve(curve []sizing.Point, knee int, now Mark, f Frame) string {
	if len(curve) == 0 {
		return ""
	}
	const (
		padLeft  = 34
		noteChar = 6.5 // about the width of a character of a note
	)
	most := float64(max(curve[len(curve)-1].Classes, now.Classes, 2))
	share := now.Share
	for _, p := range curve[min(2, len(curve)-1):] {
		share = max(share, p.Share)
	}
	share = max(share*1.15, 0.01)
	floor := f.Height - bottom
	x := func(k float64) float64 { return padLeft + (k-1)/(most-1)*(f.Width-padLeft-12) }
	y := func(v float64) float64 { return max(floor-v/share*(floor-top), 2) }

	var s svg
	s.addf(`<svg class="curve" viewBox="0 0 %.0f %.0f" role="img" aria-label="Waste against the number of classes">`, f.Width, f.Height)
	step := shareStep(share)
	for i := 0; float64(i)*step <= share; i++ {
		v := float64(i) * step
		s.line("grid", padLeft, y(v), f.Width-right, y(v))
		s.text("label", "end", padLeft-6, y(v)+4, Percent(v))
	}
	path := "M"
	for i, p := range curve {
		if i > 0 {
			path += "L"
		}
		path += fmt.Sprintf("%.1f %.1f", x(float64(p.Classes)), y(p.Share))
	}
	s.addf(`<path class="under" d="%sL%.1f %.1fL%.1f %.1fz"/>`, path, x(float64(curve[len(curve)-1].Classes)), floor, x(float64(curve[0].Classes)), floor)
	s.addf(`<path class="best" d="%s"/>`, path)
	for k := 1; k <= int(most); k = nextTick(k, int(most)) {
		s.text("label", "middle", x(float64(k)), f.Height-6, fmt.Sprint(k))
	}
	kneeAt, kneeHeight := -1e9, 0.0
	for _, p := range curve {
		if p.Classes == knee {
			kneeAt, kneeHeight = x(float64(p.Classes)), y(p.Share)
			s.addf(`<g class="knee"><title>diminishing returns beyond %s, %s</title><circle cx="%.1f" cy="%.1f" r="5"/></g>`,
				classes(p.Classes), Percent(p.Share), x(float64(p.Classes)), y(p.Share))
			note := fmt.Sprintf("%s, %s", classes(p.Classes), Percent(p.Share))
			if long := note + ": diminishing returns"; kneeAt+9+noteChar*float64(len(long)) < f.Width {
				note = long
			}
			s.text("note", "start", kneeAt+9, kneeHeight-7, note)
		}
	}
	if now.Classes > 0 {
		at, height := x(float64(now.Classes)), y(now.Share)
		s.addf(`<g class="present"><title>now: %s, %s</title><circle cx="%.1f" cy="%.1f" r="5"/></g>`,
			classes(now.Classes), Percent(now.Share), at, height)
		anchor, aside := "end", at-9
		if at < f.Width/2 {
			anchor, aside = "start", at+9
		}
		note := height - 7
		if at-kneeAt < 150 && note > kneeHeight-22 && note < kneeHeight+8 {
			note = kneeHeight + 9 // out of the way of the knee's own note
		}
		s.text("note", anchor, aside, note, fmt.Sprintf("now: %s, %s", classes(now.Classes), Percent(now.Share)))
	}
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

func classes(n int) string {
	if n == 1 {
		return "1 class"
	}
	return fmt.Sprintf("%d classes", n)
}
