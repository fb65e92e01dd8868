//go:build !unix

package h2

import "time"

// processorTime is not measured on this system.
func processorTime() time.Duration { return 0 }
