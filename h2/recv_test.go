package h2

import (
	"net"
	"testing"
	"time"

	"github.com/tarn-go/tarn/tarntest"
)

// TestWindowsAreReturnedByShares: a quarter of a window is returned at a time, at most 1 MiB and at least a byte.
func TestWindowsAreReturnedByShares(t *testing.T) {
	for window, want := range map[int]int{1: 1, 7: 1, 8: 2, 256 << 10: 64 << 10, 16 << 20: maxReturn} {
		if got := returnFrom(window); got != want {
			t.Errorf("%d bytes of %d, want %d", got, window, want)
		}
	}
}

// TestLeastWindows: of a window of less than four bytes no WINDOW_UPDATE of nothing is sent, which would be an error.
func TestLeastWindows(t *testing.T) {
	for window := 1; window <= 4; window++ {
		for _, rtt := range []time.Duration{0, time.Microsecond, time.Second} {
			cfg := Config{Window: window, MaxWindow: window, Pool: tarntest.NewPool(t)}
			c := &Conn{cfg: &cfg, nc: new(net.TCPConn), recv: receiving{rtt: rtt, timed: 2, window: window, size: initialWindow}}
			s := &Stream{c: c, in: int64(window), unread: 1}
			s.Taken(1)
			if n := c.queued(); n != 0 {
				t.Errorf("window of %d, round trip of %v: %d bytes queued for nothing", window, rtt, n)
			}
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
		{"large MaxWindow, many times more than an int of 32 bits", time.Second, 1, func(c *Config) { c.Window, c.MaxWindow, c.Unread = 64<<20, 100<<20, 100<<20 }, 100 << 20},
	} {
		cfg := conf
		if x.change != nil {
			x.change(&cfg)
		}
		c := &Conn{cfg: &cfg, opened: x.streams, recv: receiving{rtt: x.rtt, window: max(window, cfg.Window)}}
		if got := c.nextWindow(); got != x.want {
			t.Errorf("%s: %d bytes, not %d", x.name, got, x.want)
		}
	}
}

// TestShortRoundTripsAreMeasuredTwice: a window does not grow by one acknowledgement alone that took less than certainRTT; it is
// announced again, as it is, for another.
func TestShortRoundTripsAreMeasuredTwice(t *testing.T) {
	const window = 256 << 10
	for _, x := range []struct {
		rtt   time.Duration
		timed int
		want  int
	}{
		{2 * time.Millisecond, 1, window},
		{2 * time.Millisecond, 2, 4 << 20},
		{certainRTT, 1, 4 << 20},
	} {
		p := newPair(t, pipeWiring, Config{idleAfter: time.Hour}, Config{Window: window, idleAfter: time.Hour})
		c := p.s
		c.mu.Lock()
		r := &c.recv
		r.rtt, r.timed, r.unacked = x.rtt, x.timed, 0
		c.grow(&Stream{pace: pace{since: now() + instant(time.Hour)}, returnable: window})
		if r.window != x.want || r.unacked != 1 {
			t.Errorf("%v, measured %d times: window %d, not %d, and %d acknowledgements to come", x.rtt, x.timed, r.window, x.want, r.unacked)
		}
		c.mu.Unlock()
	}
}

// TestNearWindowStays: where a round trip is short, a window does not grow by less than its size, unless that makes it as large as it may
// become.
func TestNearWindowStays(t *testing.T) {
	const window = 256 << 10
	for _, x := range []struct {
		rate, most, want int
	}{
		{2*window*1000 - 1000, 4 << 20, window},
		{2 * window * 1000, 4 << 20, 2 * window},
		{1 << 30, window * 3 / 2, window * 3 / 2},
	} {
		p := newPair(t, pipeWiring, Config{idleAfter: time.Hour}, Config{Window: window, MaxWindow: x.most, Rate: x.rate, idleAfter: time.Hour})
		c := p.s
		c.mu.Lock()
		r := &c.recv
		r.rtt, r.timed, r.unacked = steadyRTT, 2, 0
		c.grow(&Stream{pace: pace{since: now() + instant(time.Hour)}, returnable: window})
		if r.window != x.want {
			t.Errorf("%d bytes a second, at most %d: a window of %d, not %d", x.rate, x.most, r.window, x.want)
		}
		c.mu.Unlock()
	}
}

// TestLargestWindows: windows grow to the largest of HTTP/2 and not beyond, of which a peer would make a connection error.
func TestLargestWindows(t *testing.T) {
	p := newPair(t, pipeWiring, Config{idleAfter: time.Hour}, Config{Window: 1 << 30, MaxWindow: maxWindow, Unread: maxWindow, idleAfter: time.Hour})
	c := p.s
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &c.recv
	r.rtt, r.timed, r.unacked = certainRTT, 2, 0
	c.grow(&Stream{pace: pace{since: now() + instant(time.Hour)}, returnable: 1 << 30})
	if r.window != maxWindow || r.size != maxWindow || r.conn != maxWindow {
		t.Errorf("a stream's window of %d, the connection's of %d, of which %d are open", r.window, r.size, r.conn)
	}
	if d := c.growConn(r.size); d != 0 {
		t.Errorf("the connection's window grows by %d", d)
	}
	c.dropQueued()
}
