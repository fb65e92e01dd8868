// Package backoff computes the wait before the next attempt to connect: the "GRPC Connection Backoff
// Protocol" with grpc-go's Config.
package backoff

import (
	"math"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/backoff"
)

// Delay is the time to wait after the given number of failures in a row, with jitter; 0 without failures. The
// result never exceeds c.MaxDelay by more than the jitter.
func Delay(c backoff.Config, failures int) time.Duration {
	if failures <= 0 {
		return 0
	}
	d := float64(c.BaseDelay) * math.Pow(max(1, c.Multiplier), float64(failures-1))
	d = min(d, float64(c.MaxDelay))
	d *= 1 + c.Jitter*(rand.Float64()*2-1)
	if d < 0 || math.IsNaN(d) {
		return 0
	}
	return time.Duration(d)
}
