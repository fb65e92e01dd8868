package smb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
)

// terminals are those of all tests. They stay open: a read that a prompt abandons restores the terminal's state
// when it ends, and its file descriptor must not be reused before.
var terminals []*os.File

// terminal opens a pseudo-terminal: what a person types goes into keys.
func terminal(t *testing.T) (keys, tty *os.File) {
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
	terminals = append(terminals, keys, tty)
	return keys, tty
}

// prompted signals when the prompt is written, which is after the terminal's state was saved.
type prompted struct {
	bytes.Buffer
	shown chan struct{}
}

func (p *prompted) Write(b []byte) (int, error) {
	if strings.HasPrefix(string(b), "Password") {
		close(p.shown)
	}
	return p.Buffer.Write(b)
}

func TestPrompt(t *testing.T) {
	keys, tty := terminal(t)
	out := &prompted{shown: make(chan struct{})}
	a := newApp("ls", options{}, cli.Streams{In: tty, Err: out})
	if _, err := keys.WriteString("secret\n"); err != nil {
		t.Fatal(err)
	}
	if p, err := a.prompt(t.Context(), tty, "Password: "); err != nil || p != "secret" {
		t.Errorf("%q, %v", p, err)
	}
	if out.String() != "Password: \n" {
		t.Errorf("shown: %q", out.String())
	}
}

// The first Ctrl-C at the prompt ends the command, and the terminal shows again what is typed.
func TestPromptInterrupted(t *testing.T) {
	_, tty := terminal(t)
	ctx, cancel := context.WithCancel(t.Context())
	out := &prompted{shown: make(chan struct{})}
	a := newApp("ls", options{}, cli.Streams{In: tty, Err: out})
	go func() {
		<-out.shown
		for echoes(tty) && t.Context().Err() == nil { // until the password is being read
			runtime.Gosched()
		}
		cancel()
	}()
	if _, err := a.prompt(ctx, tty, "Password: "); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if !echoes(tty) {
		t.Error("the terminal does not echo")
	}
}

func echoes(tty *os.File) bool {
	state, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	return err == nil && state.Lflag&unix.ECHO != 0
}
