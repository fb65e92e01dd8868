package bench

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// progress is the line on a terminal that shows the current measurement. Elsewhere it writes nothing.
type progress struct {
	w     io.Writer // nil: not a terminal
	name  string
	wrote bool
}

func newProgress(w io.Writer) *progress {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return &progress{w: f}
	}
	return &progress{}
}

func (p *progress) section(name string) { p.name = name }

// step replaces the line.
func (p *progress) step(format string, args ...any) {
	if p.w == nil {
		return
	}
	line := fmt.Sprintf("%s: %s", p.name, fmt.Sprintf(format, args...))
	fmt.Fprintf(p.w, "\r\x1b[K%.*s", p.width(), line)
	p.wrote = true
}

// width is the number of columns of one line; a longer text could not be erased.
func (p *progress) width() int {
	if f, ok := p.w.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 1 {
			return w - 1
		}
	}
	return 79
}

// done erases the line.
func (p *progress) done() {
	if p.wrote {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.wrote = false
	}
}
