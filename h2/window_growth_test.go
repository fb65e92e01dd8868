package h2

import (
	"testing"
	"time"
)

// TestWindowsAreReturnedByShares: a quarter of a window is returned at a time, at most 1 MiB and at least a byte.
func TestWindowsAreReturnedByShares(t *testing.T) {
	for window, want := range map[int]int{1: 1, 7: 1, 8: 2, 256 << 10: 64 << 10, 16 << 20: maxReturn} {
		if got := returnFrom(window); got != want {
			t.Errorf("%d bytes of %d, want %d", got, window, want)
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
		{"short round trip", steadyRTT, 1, nil, nearWindow},
		{"shorter round trip", steadyRTT / 10, 1, nil, nearWindow},
		{"MaxWindow, short round trip", steadyRTT, 1, func(c *Config) { c.MaxWindow = 300 << 10 }, 300 << 10},
		{"long round trip", steadyRTT + 1, 1, nil, growth * window},
		{"MaxWindow", time.Second, 1, func(c *Config) { c.MaxWindow = 300 << 10 }, 300 << 10},
		{"Unread of many streams", time.Second, 16, nil, 64 << 20 / 16},
		{"Unread of more", time.Second, 256, nil, 64 << 20 / 256},
		{"large MaxWindow, many times more than an int of 32 bits", time.Second, 1, func(c *Config) { c.Window, c.MaxWindow, c.Unread = 64<<20, 100<<20, 100<<20 }, 100 << 20},
	} {
		cfg := conf
		if x.change != nil {
			x.change(&cfg)
		}
		f := inflow{cfg: &cfg, rtt: x.rtt, window: max(window, cfg.Window)}
		if got := f.nextWindow(x.streams); got != x.want {
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
		f := measured(t, Config{Window: window}, x.rtt, x.timed)
		u := growNow(f, window)
		if f.window != x.want || f.unacked != 1 || !u.settle || u.wider != x.want-window {
			t.Errorf("%v, measured %d times: window %d, not %d, and %d acknowledgements to come", x.rtt, x.timed, f.window, x.want, f.unacked)
		}
	}
}

// measured is an inflow that knows the round trip.
func measured(t *testing.T, cfg Config, rtt time.Duration, timed int) *inflow {
	cfg, err := cfg.normal()
	if err != nil {
		t.Fatal(err)
	}
	f := new(inflow)
	f.init(&cfg)
	f.rtt, f.timed = rtt, timed
	return f
}

// atOnce is the pace of a window that is filled in no time.
var atOnce = pace{since: instant(time.Hour)}

// growNow has n bytes of a stream be due, which have come at once.
func growNow(f *inflow, n int) (u windowUpdate) {
	f.grow(&u, &streamInflow{pace: atOnce, returnable: n}, 1, instant(time.Minute))
	return u
}

// TestNearWindow: where a round trip is short, a window grows to nearWindow, and not by less than nearGrowth.
func TestNearWindow(t *testing.T) {
	for _, x := range []struct {
		rtt                  time.Duration
		window, unread, want int
	}{
		{100 * time.Microsecond, 256 << 10, 64 << 20, nearWindow},
		{steadyRTT, 256 << 10, 64 << 20, nearWindow},
		{steadyRTT, nearWindow / nearGrowth, 64 << 20, nearWindow},
		{steadyRTT, nearWindow/nearGrowth + 1, 64 << 20, nearWindow/nearGrowth + 1},
		{steadyRTT, 2 * nearWindow, 64 << 20, 2 * nearWindow},
		{steadyRTT, 128 << 10, 512<<10 - 1, 128 << 10},
		{steadyRTT, 128 << 10, 512 << 10, 512 << 10},
	} {
		f := measured(t, Config{Window: x.window, Unread: x.unread}, x.rtt, 2)
		growNow(f, x.window)
		if f.window != x.want {
			t.Errorf("%v, Unread %d: a window of %d grows to %d, not %d", x.rtt, x.unread, x.window, f.window, x.want)
		}
	}
}

// TestLargestWindows: windows grow to the largest of HTTP/2 and not beyond, of which a peer would make a connection error.
func TestLargestWindows(t *testing.T) {
	f := measured(t, Config{Window: 1 << 30, MaxWindow: maxWindow, Unread: maxWindow}, certainRTT, 2)
	u := growNow(f, 1<<30)
	if f.window != maxWindow || f.size != maxWindow || f.conn != maxWindow {
		t.Errorf("a stream's window of %d, the connection's of %d, of which %d are open", f.window, f.size, f.conn)
	}
	if d := f.growConn(&u, f.size, instant(time.Minute)); d != 0 {
		t.Errorf("the connection's window grows by %d", d)
	}
}

// TestPace: which arrivals show that the window is what limits the peer.
func TestPace(t *testing.T) {
	const window, rtt = 256 << 10, 20 * time.Millisecond
	const part = window / 4
	for _, x := range []struct {
		name  string
		waits []time.Duration // before each quarter of the window that arrives
		want  []bool          // what fill reports then
	}{
		{"all at once", []time.Duration{0, 0, 0, 0, 0}, []bool{false, false, true, false, true}},
		{"a window in a round trip", []time.Duration{0, rtt / 4, rtt / 4, rtt / 4, rtt / 4}, []bool{false, false, true, false, true}},
		{"a window in two round trips", []time.Duration{0, rtt / 2, rtt / 2, rtt / 2, rtt / 2}, []bool{false, false, false, false, false}},
		{"slow", []time.Duration{0, rtt, rtt, rtt, rtt}, []bool{false, false, false, false, false}},
		{"a quarter at once with the one before it", []time.Duration{0, rtt, 0, rtt, 0, rtt, 0}, []bool{false, false, false, false, false, false, false}},
		{"after a pause", []time.Duration{0, time.Minute, 0, 0, 0}, []bool{false, false, false, false, true}},
	} {
		var p pace
		now := instant(1)
		for i, wait := range x.waits {
			now += instant(wait)
			if got := p.fill(window, part, rtt, now); got != x.want[i] {
				t.Errorf("%s: quarter %d: %v", x.name, i, got)
			}
		}
	}
}

// TestConnWindowGrows: the connection's window becomes twice as large when it limits the peer over a long round trip, to at most twice
// MaxWindow and to Unread.
func TestConnWindowGrows(t *testing.T) {
	for _, x := range []struct {
		name  string
		rtt   time.Duration
		timed int
		conf  Config
		want  int
	}{
		{"long round trip", certainRTT, 1, Config{}, 2 * defaultConnWin},
		{"round trip measured once", certainRTT - 1, 1, Config{}, defaultConnWin},
		{"round trip measured twice", certainRTT - 1, 2, Config{}, 2 * defaultConnWin},
		{"short round trip", steadyRTT, 2, Config{}, defaultConnWin},
		{"round trip not known", 0, 0, Config{}, defaultConnWin},
		{"fixed windows", certainRTT, 2, Config{Window: 4 << 20, MaxWindow: 4 << 20, ConnWindow: 1 << 20}, 1 << 20},
		{"MaxWindow", certainRTT, 2, Config{MaxWindow: 768 << 10}, 3 << 19},
		{"MaxWindow that is less", certainRTT, 2, Config{MaxWindow: 300 << 10}, defaultConnWin},
		{"Unread", certainRTT, 2, Config{Unread: 1100 << 10}, 1100 << 10},
	} {
		f := measured(t, x.conf, x.rtt, x.timed)
		f.conn -= f.size / 2
		before, size := f.conn, f.size
		f.pace, f.returnable = atOnce, f.size/2
		u := f.update(nil, 0, instant(time.Minute))
		if f.size != x.want || f.conn-before != size/2+f.size-size || u.conn != f.conn-before {
			t.Errorf("%s: %d bytes, not %d, of which %d were given", x.name, f.size, x.want, f.conn-before)
		}
	}
}
