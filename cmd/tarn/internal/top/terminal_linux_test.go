package top

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
	"github.com/tarn-go/tarn/cmd/tarn/internal/ptytest"
)

// On a terminal the figures are drawn on the other screen, what is typed is not shown, and q, or the end of the command's context,
// restores the terminal.
func TestTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	url, _ := service(t)
	for _, c := range []struct {
		name string
		end  func(keys io.Writer, interrupt context.CancelFunc)
	}{
		{"q", func(keys io.Writer, _ context.CancelFunc) { io.WriteString(keys, "q") }},
		{"interrupt", func(_ io.Writer, interrupt context.CancelFunc) { interrupt() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			keys, tty := ptytest.Open(t, 60, 20)
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			done := make(chan int)
			go func() { done <- Run(ctx, []string{url}, cli.Streams{In: tty, Out: tty, Err: tty}) }()
			var written atomic.Value
			written.Store("")
			drawn, left := make(chan struct{}), make(chan struct{})
			go func() {
				var text [4096]byte
				all := ""
				for closed := 0; ; {
					n, err := keys.Read(text[:])
					if err != nil {
						return
					}
					all += string(text[:n])
					written.Store(all)
					if closed == 0 && strings.Contains(all, "q quit") {
						closed++
						close(drawn)
					}
					if closed == 1 && strings.Contains(all, "\x1b[?1049l") {
						closed++
						close(left)
					}
				}
			}()
			<-drawn
			if text := written.Load().(string); !strings.Contains(text, "\x1b[?1049h") || ptytest.Echoes(tty) {
				t.Errorf("the shell's screen is drawn on, or what is typed is shown: %q", text)
			}
			c.end(keys, interrupt)
			if status := <-done; status != cli.OK {
				t.Errorf("status %d", status)
			}
			<-left
			if !ptytest.Echoes(tty) {
				t.Error("what is typed is not shown again")
			}
		})
	}
}
