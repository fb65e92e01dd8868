//go:build !linux

package h2

import "time"

// rest does nothing: timers are too coarse, or not known to be fine enough.
func rest(time.Duration) {}
