package top

import (
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

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

// cut shortens s to so many columns.
func cut(s string, width int) string { return ansi.Truncate(s, max(width, 0), "…") }

// cutPlace shortens a function's name with its file and line to so many columns. The line stays, as it is what one looks up.
func cutPlace(place string, width int) string {
	if n := strings.LastIndexByte(place, ' '); n >= 0 && lipgloss.Width(place) > width {
		if line := place[n:]; lipgloss.Width(line)+1 < width {
			return cut(place[:n], width-lipgloss.Width(line)) + line
		}
	}
	if n := lipgloss.Width(place); n > width {
		return ansi.TruncateLeft(place, n-max(width-1, 0), "…")
	}
	return place
}

// styles are the text's colours. The zero value has none, and writes no escape sequence.
type styles struct{ title, dim, bad, unseen, seen lipgloss.Style }

// colours are those of a terminal. Package bubbletea leaves out what the terminal does not have, and all of them with NO_COLOR.
func colours() styles {
	colour := func(c lipgloss.Style, n string) lipgloss.Style { return c.Foreground(lipgloss.Color(n)) }
	plain := lipgloss.NewStyle()
	return styles{title: plain.Bold(true), dim: plain.Faint(true), bad: colour(plain, "1"), unseen: colour(plain, "3"), seen: colour(plain, "6")}
}
