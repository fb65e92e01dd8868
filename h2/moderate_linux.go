package h2

import (
	"syscall"
	"time"
)

// sleep sleeps for d. A timer of Go's takes a millisecond when nothing else runs.
func sleep(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&t, nil) // a signal may end it sooner
}
