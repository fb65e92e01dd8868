package top

import (
	"context"
	"io"
)

// key is the action of a key press.
type key int

const (
	keyNone key = iota
	keyQuit
	keySort
	keyUp
	keyDown
	keyPageUp
	keyPageDown
	keyTop
	keyBottom
)

// keyOf reads one key press as a terminal in raw mode sends it: one byte, or an escape sequence.
func keyOf(press string) key {
	switch press {
	case "q", "\x03", "\x1b":
		return keyQuit
	case "s":
		return keySort
	case "k", "\x1b[A", "\x1bOA":
		return keyUp
	case "j", "\x1b[B", "\x1bOB":
		return keyDown
	case "\x1b[5~", "\x02":
		return keyPageUp
	case "\x1b[6~", " ", "\x06":
		return keyPageDown
	case "g", "\x1b[H":
		return keyTop
	case "G", "\x1b[F":
		return keyBottom
	}
	return keyNone
}

// readKeys passes on key presses until in or ctx ends. A terminal returns one press a read. Its goroutine
// ends when its read returns, at the latest with the process.
func readKeys(ctx context.Context, in io.Reader, pressed chan<- key) {
	var press [16]byte
	for {
		n, err := in.Read(press[:])
		k := keyOf(string(press[:n]))
		if err != nil {
			k = keyQuit
		}
		if k != keyNone {
			select {
			case pressed <- k:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}
