package h2

import (
	"testing"
	"time"
)

// TestWindowsAreReturnedByShares: a quarter of a window is returned at a time, half of a stream's where a round trip is short, and at
// most 1 MiB.
func TestWindowsAreReturnedByShares(t *testing.T) {
	for _, x := range []struct {
		name         string
		rtt          time.Duration
		size         int
		stream, conn int
	}{
		{"round trip not known", 0, 256 << 10, 64 << 10, 64 << 10},
		{"short round trip", 50 * time.Microsecond, 256 << 10, 128 << 10, 64 << 10},
		{"longest short round trip", steadyRTT, 256 << 10, 128 << 10, 64 << 10},
		{"long round trip", 10 * time.Millisecond, 256 << 10, 64 << 10, 64 << 10},
		{"large window, short round trip", time.Microsecond, 16 << 20, maxReturn, maxReturn},
		{"large window", time.Second, 16 << 20, maxReturn, maxReturn},
	} {
		r := receiving{rtt: x.rtt, window: x.size, size: x.size}
		if got := r.returnFrom(); got != x.stream {
			t.Errorf("%s: %d bytes of a stream, want %d", x.name, got, x.stream)
		}
		if got := r.returnConnFrom(); got != x.conn {
			t.Errorf("%s: %d bytes of the connection, want %d", x.name, got, x.conn)
		}
	}
}
