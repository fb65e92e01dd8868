package plot

import _ "embed"

//go:embed style.css
var style string

// Style is the style sheet of the debug page and of reports: colours for light and dark, and the classes that [Sizes], [Curve] and
// [Ages] use.
func Style() string { return style }

//go:embed bars.css
var barStyle string

// BarStyle is the style sheet of [Bars] and [Ratios]; it needs that of [Style].
func BarStyle() string { return barStyle }
