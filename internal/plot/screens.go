package plot

import "github.com/tarn-go/tarn/sizing"

// Wide is the frame of figures in windows of more than 1,000 pixels.
func Wide() Frame { return Frame{1000, 190} }

// Middle is the frame of figures in windows of 481 to 1,000 pixels.
func Middle() Frame { return Frame{420, 190} }

// Narrow is the frame of figures in windows of at most 480 pixels. It fits a window of 320 as it is.
func Narrow() Frame { return Frame{256, 180} }

// SizesOnScreens is [Sizes] of h with ladder, drawn in each frame; the style sheet shows the one that fits the
// window, so that text has at least 11 pixels from a window of 320 pixels on. The axis has room for the bars of other,
// a second ladder, too.
func SizesOnScreens(h sizing.Histogram, ladder, other []int, label string) string {
	draw := func(f Frame) string {
		return Sizes(h, ladder, f, max(Highest(h, ladder, f), Highest(h, other, f)), label)
	}
	return place("wide", draw(Wide())) + place("middle", draw(Middle())) + place("narrow", draw(Narrow()))
}

// CurveOnScreens is [Curve], drawn for large windows, where it has half a line beside the ladder proposed, or the whole line if none is, and
// for narrow ones.
func CurveOnScreens(curve []sizing.Point, m Marks) string {
	draw := func(f Frame) string { return Curve(curve, m, f) }
	if m.Proposed.Classes == 0 {
		return place("wide", draw(Wide())) + place("middle", draw(Middle())) + place("narrow", draw(Narrow()))
	}
	return place("half", draw(Middle())) + place("narrow", draw(Narrow()))
}

func place(class, figure string) string {
	return `<div class="plot ` + class + `">` + figure + `</div>`
}
