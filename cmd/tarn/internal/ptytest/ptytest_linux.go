package ptytest

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// opened are the terminals of all tests. They stay open: a read that a command abandons restores the terminal's state
// when it ends, and its file descriptor must not be reused before.
var opened []*os.File

// Open opens a pseudo-terminal of so many columns and lines. What is written to keys arrives at tty as if it was typed, and
// what is written to tty can be read from keys.
func Open(t testing.TB, columns, lines uint16) (keys, tty *os.File) {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	opened = append(opened, keys, tty)
	if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: lines}); err != nil {
		t.Fatal(err)
	}
	return keys, tty
}

// Echoes reports whether the terminal shows what is typed.
func Echoes(tty *os.File) bool {
	state, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	return err == nil && state.Lflag&unix.ECHO != 0
}
