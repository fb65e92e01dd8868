package migrate

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// quiet is how long a run prints nothing about its progress.
const quiet = 5 * time.Second

// watch prints what a run does to a terminal, until the returned function is called: the first run compiles what the packages import,
// which takes minutes in a large module.
func watch(w io.Writer, what string) (stop func()) {
	if file, ok := w.(*os.File); !ok || !term.IsTerminal(int(file.Fd())) {
		return func() {}
	}
	return every(quiet, w, what)
}

// every prints what a run does, and for how long it has done it.
func every(d time.Duration, w io.Writer, what string) (stop func()) {
	began := time.Now()
	tick := time.NewTicker(d)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				fmt.Fprintf(w, "tarn migrate: %v: %s\n", time.Since(began).Round(time.Second), what)
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}
