//go:build !unix

package bench

import "time"

// processorTime is not known on this system.
func processorTime() time.Duration { return 0 }
