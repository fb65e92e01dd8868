package top

import (
	"strings"
	"unicode/utf8"

	"github.com/tarn-go/tarn/internal/plot"
)

func size1(n int64) string { return plot.Bytes(float64(n)) }

// spark draws values as a line of blocks.
func spark(values []float64) string {
	most := 0.0
	for _, x := range values {
		most = max(most, x)
	}
	blocks := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, x := range values {
		i := 0
		if most > 0 {
			i = min(int(x/most*float64(len(blocks))), len(blocks)-1)
		}
		b.WriteRune(blocks[i])
	}
	return b.String()
}

// cut shortens s to width runes.
func cut(s string, width int) string {
	r := []rune(s)
	if len(r) <= width {
		return s
	}
	return string(r[:max(width-1, 0)]) + "…"
}

// cutPlace shortens a function's name with its file and line to width runes. The line stays, as it is what one looks up.
func cutPlace(place string, width int) string {
	if n := strings.LastIndexByte(place, ' '); n >= 0 && utf8.RuneCountInString(place) > width {
		if line := place[n:]; utf8.RuneCountInString(line)+1 < width {
			return cut(place[:n], width-utf8.RuneCountInString(line)) + line
		}
	}
	r := []rune(place)
	if len(r) <= width {
		return place
	}
	return "…" + string(r[len(r)-max(width-1, 0):])
}

func (v *view) paint(code, s string) string {
	if !v.colour || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (v *view) bold(s string) string   { return v.paint("1", s) }
func (v *view) dim(s string) string    { return v.paint("2", s) }
func (v *view) red(s string) string    { return v.paint("31", s) }
func (v *view) yellow(s string) string { return v.paint("33", s) }
func (v *view) cyan(s string) string   { return v.paint("36", s) }
