package top

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/tarn-go/tarn/debug"
)

// Escape sequences of ECMA-48 and xterm that every terminal of the last decades knows.
const (
	enter = "\x1b[?1049h\x1b[?25l" // other screen, no cursor
	leave = "\x1b[?25h\x1b[?1049l"
	home  = "\x1b[H"
	eol   = "\x1b[K"
	below = "\x1b[J"
)

// runTerminal redraws until ctx ends or a key says so. The terminal is left as it was found.
func runTerminal(ctx context.Context, o options, first *debug.Snapshot, out *os.File, in io.Reader) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if file, ok := in.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		old, err := term.MakeRaw(int(file.Fd()))
		if err != nil {
			return err
		}
		defer term.Restore(int(file.Fd()), old)
		go keys(file, stop)
	}
	if _, err := out.WriteString(enter); err != nil {
		return err
	}
	defer func() {
		_, left := out.WriteString(leave)
		err = errors.Join(err, left)
	}()
	v := view{now: first, colour: os.Getenv("NO_COLOR") == "", history: map[string][]float64{}}
	for {
		v.width, v.height = size(out)
		if _, err := out.WriteString(screen(draw(v), v.height)); err != nil {
			return err
		}
		if !wait(ctx, o.every) {
			return nil
		}
		now, err := look(ctx, o)
		if err != nil {
			v.trouble = err.Error() // the service may be restarting: say so and try again
			continue
		}
		v.before, v.now, v.trouble = v.now, now, ""
		v.remember()
	}
}

// keys ends the command on q, Escape or ^C, which a raw terminal hands over as a byte. It lives until
// its read returns, at the latest with the process.
func keys(in io.Reader, stop context.CancelFunc) {
	var b [1]byte
	for {
		n, err := in.Read(b[:])
		if err != nil || n == 1 && (b[0] == 'q' || b[0] == 3 || b[0] == 0x1b) {
			stop()
			return
		}
	}
}

func size(out *os.File) (width, height int) {
	width, height, err := term.GetSize(int(out.Fd()))
	if err != nil || width < 20 || height < 5 {
		return 80, 24
	}
	return width, height
}

// screen makes text repaint a raw terminal of so many lines without flicker.
func screen(text string, height int) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	lines = lines[:min(len(lines), height-1)]
	return home + strings.Join(lines, eol+"\r\n") + eol + below
}
