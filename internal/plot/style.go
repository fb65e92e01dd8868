package plot

import _ "embed"

//go:embed style.css
var style string

// Style is the style sheet of the debug page and of reports: colours for light and dark, and all the
// classes that drawings of this package use.
func Style() string { return style }
