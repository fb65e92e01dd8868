package smb

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
	"github.com/tarn-go/tarn/cmd/tarn/internal/ptytest"
)

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
	keys, tty := ptytest.Open(t, 80, 24)
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
	_, tty := ptytest.Open(t, 80, 24)
	ctx, cancel := context.WithCancel(t.Context())
	out := &prompted{shown: make(chan struct{})}
	a := newApp("ls", options{}, cli.Streams{In: tty, Err: out})
	go func() {
		<-out.shown
		for ptytest.Echoes(tty) && t.Context().Err() == nil { // until the password is being read
			runtime.Gosched()
		}
		cancel()
	}()
	if _, err := a.prompt(ctx, tty, "Password: "); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if !ptytest.Echoes(tty) {
		t.Error("the terminal does not echo")
	}
}
