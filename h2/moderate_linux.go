package h2

import (
	"syscall"
	"time"
)

// rest sleeps for d. A timer of Go's takes a millisecond when nothing else runs.
func rest(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&t, nil) // a signal may end it sooner
}
