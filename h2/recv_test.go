package h2

import (
	"testing"
	"time"
)

// TestWorthReturning: a quarter of a window is returned at a time, half of it where a round trip is short, and at most 1 MiB.
func TestWorthReturning(t *testing.T) {
	for _, x := range []struct {
		name string
		rtt  time.Duration
		size int
		want int
	}{
		{"round trip not known", 0, 256 << 10, 64 << 10},
		{"short round trip", 50 * time.Microsecond, 256 << 10, 128 << 10},
		{"longest short round trip", steadyRTT, 256 << 10, 128 << 10},
		{"long round trip", 10 * time.Millisecond, 256 << 10, 64 << 10},
		{"large window, short round trip", time.Microsecond, 16 << 20, maxReturn},
		{"large window", time.Second, 16 << 20, maxReturn},
	} {
		r := receiving{rtt: x.rtt}
		if !r.worthReturning(x.want, x.size) || r.worthReturning(x.want-1, x.size) {
			t.Errorf("%s: not from %d bytes on", x.name, x.want)
		}
	}
}
