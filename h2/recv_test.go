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

// TestNextWindow: what a window grows to next, by the round trip, and what bounds it.
func TestNextWindow(t *testing.T) {
	const window = 256 << 10
	conf := Config{MaxWindow: 64 << 20, Unread: 64 << 20}
	for _, x := range []struct {
		name    string
		rtt     time.Duration
		streams int
		change  func(*Config)
		want    int
	}{
		{"round trip not known", 0, 1, nil, 0},
		{"short round trip", steadyRTT, 1, nil, growth * window},
		{"long round trip", steadyRTT + 1, 1, nil, longGrowth * window},
		{"MaxWindow", time.Second, 1, func(c *Config) { c.MaxWindow = 300 << 10 }, 300 << 10},
		{"Rate, short round trip", steadyRTT, 1, func(c *Config) { c.Rate = 300 << 20 }, 300 << 20 / 1000},
		{"Rate, long round trip", 10 * time.Millisecond, 1, func(c *Config) { c.Rate = 100 << 20 }, 100 << 20 * 19 / 1000},
		{"Unread of many streams", time.Second, 16, nil, 64 << 20 / 16},
		{"Unread of more", time.Second, 256, nil, 64 << 20 / 256},
	} {
		cfg := conf
		if x.change != nil {
			x.change(&cfg)
		}
		c := &Conn{cfg: &cfg, opened: x.streams, recv: receiving{rtt: x.rtt, window: window}}
		if got := c.nextWindow(); got != x.want {
			t.Errorf("%s: %d bytes, not %d", x.name, got, x.want)
		}
	}
}
