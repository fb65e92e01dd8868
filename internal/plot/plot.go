// Package plot draws the charts of the debug page and of the reports of `tarn tune` and `tarn bench`, and has the style sheet of all
// three: as SVG sizes with a ladder through them, the curve of waste against the number of classes, and ages; as HTML bars and ratios.
// What it is given besides numbers is escaped; colours come from the style sheet by class. The charts over time of the debug page are
// not here: the browser draws them (debug/assets/charts.js), because it alone has the history, and draws them anew each second.
package plot

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// svg collects SVG text; coordinates are written with one decimal to keep pages small.
type svg struct{ b strings.Builder }

func (s *svg) addf(format string, args ...any) { fmt.Fprintf(&s.b, format, args...) }

func (s *svg) rect(class string, x, y, w, h float64) {
	if w > 0 && h > 0.05 {
		s.addf(`<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, class, x, y, w, h)
	}
}

func (s *svg) line(class string, x1, y1, x2, y2 float64) {
	s.addf(`<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, class, x1, y1, x2, y2)
}

// text writes text that the caller made of numbers and units only.
func (s *svg) text(class, anchor string, x, y float64, text string) {
	s.addf(`<text class="%s" text-anchor="%s" x="%.1f" y="%.1f">%s</text>`, class, anchor, x, y, text)
}

// Bytes writes n with a binary unit and at most three digits before it: "512 B", "1.5 KiB", "16 KiB".
func Bytes(n float64) string {
	const units = "KMGTPE"
	if math.Abs(n) < 1024 {
		return fmt.Sprintf("%.0f B", n)
	}
	i := -1
	for math.Abs(n) >= 1023.5 && i < len(units)-1 {
		n /= 1024
		i++
	}
	return fmt.Sprintf("%s %ciB", digits(n), units[i])
}

// Count writes n with a decimal unit: "950", "12.3k", "4.1M".
func Count(n float64) string {
	const units = "kMGTPE"
	if math.Abs(n) < 1000 {
		return digits(n)
	}
	i := -1
	for math.Abs(n) >= 999.5 && i < len(units)-1 {
		n /= 1000
		i++
	}
	return fmt.Sprintf("%s%c", digits(n), units[i])
}

// Counted writes how many of a noun, which is a regular one, there are: "1 get", "12.3k gets".
func Counted(n float64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Count(n) + " " + noun + "s"
}

// Span writes a duration with a unit that suits its length, and two or three digits.
func Span(d time.Duration) string {
	switch {
	case d <= 0:
		return "–"
	case d < time.Millisecond:
		return fmt.Sprintf("%.3g µs", float64(d)/1e3)
	case d < time.Second:
		return fmt.Sprintf("%.3g ms", float64(d)/1e6)
	case d < time.Minute:
		return fmt.Sprintf("%.3g s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}

// digits writes whole numbers whole, and others with one decimal below 100.
func digits(n float64) string {
	if n == math.Trunc(n) || math.Abs(n) >= 99.95 {
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.1f", n)
}

// Percent writes a share between 0 and 1 as a percentage, with one decimal below ten and above 99. A share
// below 1 is never written as 100%, and one above 0 never as 0%.
func Percent(share float64) string {
	switch {
	case share <= 0 || share >= 1:
		return fmt.Sprintf("%.0f%%", 100*share)
	case share < 0.0005:
		return "<0.1%"
	case share < 0.0995:
		return fmt.Sprintf("%.1f%%", 100*share)
	case share > 0.99:
		return fmt.Sprintf("%.1f%%", math.Floor(1000*share)/10)
	}
	return fmt.Sprintf("%.0f%%", 100*share)
}
