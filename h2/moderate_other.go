//go:build !linux

package h2

import "time"

// sleep does nothing: timers are too coarse, or not known to be fine enough.
func sleep(time.Duration) {}
