//go:build unix

// Package cputime reads how much processor time this process has used, for benchmarks: it depends less on the
// machine's other work than elapsed time does.
package cputime

import (
	"syscall"
	"time"
)

// Used returns the processor time that this process has used so far, in user and system mode; 0 where the system does
// not say.
func Used() time.Duration { return Own().All }

// Own is Used with the kernel's part.
func Own() Spent {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return Spent{}
	}
	return Spent{time.Duration(u.Utime.Nano() + u.Stime.Nano()), time.Duration(u.Stime.Nano())}
}
