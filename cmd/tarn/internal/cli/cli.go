// Package cli holds what the commands of cmd/tarn share: their streams and exit statuses.
package cli

import "io"

// Streams are the standard streams of a command, so that tests can run one without a process.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// Exit statuses of every command.
const (
	OK     = 0 // it did what was asked
	Failed = 1 // it understood what was asked, and could not do it
	Usage  = 2 // it did not understand what was asked
)
