//go:build unix

package main

import (
	"os"
	"syscall"
	"testing"
)

// SIGINT and SIGTERM end the command in order: serve, for one, removes the new content of an unfinished upload.
func TestSignals(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		ctx, stop := interruptible()
		if err := syscall.Kill(os.Getpid(), s); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		stop()
	}
}
