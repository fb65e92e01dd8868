package top

import (
	"context"
	"io"
	"strings"
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

// split takes the first key press off what a terminal sent: one byte, or a whole escape sequence.
func split(sent string) (press, left string) {
	n := min(1, len(sent))
	switch {
	case strings.HasPrefix(sent, "\x1b["): // parameters, and a final byte from @ to ~ (ECMA-48, 5.4)
		n = len(sent)
		if i := strings.IndexFunc(sent[2:], final); i >= 0 {
			n = 2 + i + 1
		}
	case strings.HasPrefix(sent, "\x1bO"):
		n = min(3, len(sent))
	case strings.HasPrefix(sent, "\x1b"): // a key with Alt, or Escape alone
		n = min(2, len(sent))
	}
	return sent[:n], sent[n:]
}

// incomplete reports whether press, which ends what was read, may be the beginning of a longer escape sequence.
func incomplete(press string) bool {
	parameters, ok := strings.CutPrefix(press, "\x1b[")
	if ok {
		return !strings.ContainsFunc(parameters, final)
	}
	return press == "\x1b" || press == "\x1bO"
}

// final reports whether r ends a sequence that begins with ESC [.
func final(r rune) bool { return r >= '@' }

// readKeys passes on key presses until in or ctx ends. A read has one press, or several of a key that is held down. A read
// that fills the buffer may end within a sequence, the rest of which comes with the next read. The goroutine of readKeys ends when
// its read returns, at the latest with the process.
func readKeys(ctx context.Context, in io.Reader, pressed chan<- key) {
	var sent [256]byte
	begun := 0 // bytes at the beginning of sent: of a sequence that the last read cut
	for {
		n, err := in.Read(sent[begun:])
		n += begun
		begun = 0
		for press, left := split(string(sent[:n])); press != ""; press, left = split(left) {
			// A sequence of the buffer's length could not get longer: it is no key.
			if left == "" && n == len(sent) && len(press) < n && err == nil && incomplete(press) {
				begun = copy(sent[:], press)
				break
			}
			if !pass(ctx, pressed, keyOf(press)) {
				return
			}
		}
		if err != nil {
			pass(ctx, pressed, keyQuit)
			return
		}
	}
}

// pass sends k to pressed. It reports false when ctx ends before that.
func pass(ctx context.Context, pressed chan<- key, k key) bool {
	select {
	case pressed <- k:
		return true
	case <-ctx.Done():
		return false
	}
}
