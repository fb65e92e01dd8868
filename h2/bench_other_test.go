//go:build !unix

package h2

import "time"

// processorTime is not known here.
func processorTime() time.Duration { return 0 }
