package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/tarn-go/tarn/debug"
)

// Escape sequences of ECMA-48 and xterm.
const (
	enter = "\x1b[?1049h\x1b[?25l" // other screen, no cursor
	leave = "\x1b[?25h\x1b[?1049l"
	home  = "\x1b[H"
	eol   = "\x1b[K"
	below = "\x1b[J"

	bottom = "\x1b[%d;1H" // the cursor to that line
)

// runTerminal redraws until ctx ends or the user quits by a key. It restores the terminal's state.
func runTerminal(ctx context.Context, o options, first *debug.Snapshot, out *os.File, in io.Reader) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	pressed := make(chan key)
	if file, ok := in.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		old, err := term.MakeRaw(int(file.Fd()))
		if err != nil {
			return err
		}
		defer term.Restore(int(file.Fd()), old)
		go readKeys(ctx, file, pressed)
	}
	if _, err := out.WriteString(enter); err != nil {
		return err
	}
	defer func() {
		_, left := out.WriteString(leave)
		err = errors.Join(err, left)
	}()
	// A service that does not answer delays neither a key nor the end.
	type answer struct {
		snapshot *debug.Snapshot
		err      error
	}
	answers := make(chan answer, 1)
	v := view{now: first, order: o.order, colour: os.Getenv("NO_COLOR") == "", history: map[string][]float64{}}
	var at scroll
	next := time.NewTimer(o.every)
	defer next.Stop()
	for {
		var height int
		v.width, height = size(out)
		text := at.screen(draw(v), height)
		text += fmt.Sprintf(bottom, height) + v.lastLine(&at, height) // its line was erased with the lines below the text
		if _, err := out.WriteString(text); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case k := <-pressed:
			switch k {
			case keyQuit:
				return nil
			case keySort:
				v.order = (v.order + 1) % orders
			default:
				at.move(k, height)
			}
		case <-next.C:
			go func() {
				s, err := look(ctx, o)
				answers <- answer{s, err}
			}()
		case a := <-answers:
			next.Reset(o.every)
			if a.err != nil {
				v.trouble = a.err.Error() // the service may be restarting: say so and try again
				continue
			}
			v.before, v.now, v.trouble = v.now, a.snapshot, ""
			v.remember()
		}
	}
}

// size returns the terminal's size, or 80×24 where it is unknown or too small to draw in.
func size(out *os.File) (width, height int) {
	width, height, err := term.GetSize(int(out.Fd()))
	if err != nil || width < 20 || height < 5 {
		return 80, 24
	}
	return width, height
}
