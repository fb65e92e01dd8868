package h2

import (
	"net"
	"testing"
	"time"

	"github.com/tarn-go/tarn/tarntest"
)

// TestWindowsAreReturnedByShares: a quarter of a window is returned at a time, half of a stream's where a round trip is short, and of
// the connection's, too, while no more than one stream is open; at most 1 MiB.
func TestWindowsAreReturnedByShares(t *testing.T) {
	for _, x := range []struct {
		name         string
		rtt          time.Duration
		size         int
		stream, conn int
		alone        int // of the connection while no more than one stream is open
	}{
		{"round trip not known", 0, 256 << 10, 64 << 10, 64 << 10, 64 << 10},
		{"short round trip", 50 * time.Microsecond, 256 << 10, 128 << 10, 64 << 10, 128 << 10},
		{"longest short round trip", steadyRTT, 256 << 10, 128 << 10, 64 << 10, 128 << 10},
		{"long round trip", 10 * time.Millisecond, 256 << 10, 64 << 10, 64 << 10, 64 << 10},
		{"large window, short round trip", time.Microsecond, 16 << 20, maxReturn, maxReturn, maxReturn},
		{"large window", time.Second, 16 << 20, maxReturn, maxReturn, maxReturn},
	} {
		r := receiving{rtt: x.rtt, window: x.size, size: x.size}
		if got := r.returnFrom(); got != x.stream {
			t.Errorf("%s: %d bytes of a stream, want %d", x.name, got, x.stream)
		}
		if got := r.returnConnFrom(2); got != x.conn {
			t.Errorf("%s: %d bytes of the connection, want %d", x.name, got, x.conn)
		}
		for streams := range 2 {
			if got := r.returnConnFrom(streams); got != x.alone {
				t.Errorf("%s, %d streams: %d bytes of the connection, want %d", x.name, streams, got, x.alone)
			}
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

// TestConnWindowGoesAlong: a WINDOW_UPDATE of a stream takes the connection's along from an eighth of that on, and not while too much
// is unread. Of a large window half of maxReturn suffices.
func TestConnWindowGoesAlong(t *testing.T) {
	const window, size = 256 << 10, 1 << 20
	for _, x := range []struct {
		name             string
		size             int // of the connection's window
		received, unread int
		given            int
	}{
		{"little", size, size/8 - 1, 0, 0},
		{"an eighth", size, size / 8, 0, size / 8},
		{"too much unread", size, size / 8, defaultUnread + 1, 0},
		{"little of 32 MiB", 32 << 20, maxReturn/2 - 1, 0, 0},
		{"enough of 32 MiB", 32 << 20, maxReturn / 2, 0, maxReturn / 2},
	} {
		p := newPair(t, pipeWiring, Config{idleAfter: time.Hour}, Config{Window: window, MaxWindow: window, ConnWindow: x.size, idleAfter: time.Hour})
		c := p.s
		c.mu.Lock()
		r := &c.recv
		before := r.conn
		r.returnable, r.unread = x.received, x.unread
		if s := (&Stream{id: 1, returnable: window / 2}); !c.returnStreamWindow(s) || s.returnable != 0 {
			t.Errorf("%s: the stream's window is not given back", x.name)
		}
		if given := r.conn - before; given != x.given || r.returnable != x.received-x.given {
			t.Errorf("%s: %d bytes of the connection's window given back, not %d, and %d left", x.name, given, x.given, r.returnable)
		}
		c.dropQueued() // the peer knows no stream 1
		r.unread = 0
		c.mu.Unlock()
	}
}
