package top

import (
	"fmt"
	"strings"

	"github.com/tarn-go/tarn/cmd/tarn/internal/fetch"
)

// scroll is how far the text is moved up. The first line, the title, stays, and the terminal's last line is not part of it.
type scroll struct {
	from  int // lines left out below the title
	lines int // of the text drawn last
}

// move follows a key on a terminal of so many lines.
func (s *scroll) move(k key, height int) {
	page := max(height-2, 1)
	switch k {
	case keyUp:
		s.from--
	case keyDown:
		s.from++
	case keyPageUp:
		s.from -= page
	case keyPageDown:
		s.from += page
	case keyTop:
		s.from = 0
	case keyBottom:
		s.from = s.lines
	}
	s.from = max(min(s.from, s.lines-page-1), 0)
}

// screen makes text repaint a raw terminal of so many lines without flicker. Each line is erased before it is written: after
// a line that fills the terminal's width the cursor is still on its last character, which an erasure would clear.
func (s *scroll) screen(text string, height int) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	s.lines = len(lines)
	s.move(keyNone, height)
	shown := append([]string{lines[0]}, lines[1+min(s.from, len(lines)-1):]...)
	shown = shown[:min(len(shown), height-1)]
	return home + eol + strings.Join(shown, "\r\n"+eol) + "\r\n" + below
}

// lastLine is the terminal's last line: what is wrong, or else which lines of the text drawn last are shown, where not all
// are, and what the keys do.
func (v *view) lastLine(s *scroll, height int) string {
	if v.trouble != "" {
		return v.red(cut(fetch.Clean(v.trouble), v.width))
	}
	where := ""
	if page := height - 2; s.lines-1 > page {
		where = fmt.Sprintf("%d–%d of %d  ↑↓ scroll  ", s.from+1, min(s.from+page, s.lines-1), s.lines-1)
	}
	return v.dim(cut(where+"s sort: "+v.order.String()+"  q quit", v.width))
}
