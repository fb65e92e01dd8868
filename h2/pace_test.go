package h2

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestPace: which arrivals show that the window is what limits the peer. Time is synctest's.
func TestPace(t *testing.T) {
	const window, rtt = 256 << 10, 20 * time.Millisecond
	const part = window / 4
	for _, x := range []struct {
		name  string
		waits []time.Duration // before each quarter of the window that arrives
		want  []bool          // what limits reports then
	}{
		{"all at once", []time.Duration{0, 0, 0, 0, 0}, []bool{false, false, true, false, true}},
		{"a window in a round trip", []time.Duration{0, rtt / 4, rtt / 4, rtt / 4, rtt / 4}, []bool{false, false, true, false, true}},
		{"a window in two round trips", []time.Duration{0, rtt / 2, rtt / 2, rtt / 2, rtt / 2}, []bool{false, false, false, false, false}},
		{"slow", []time.Duration{0, rtt, rtt, rtt, rtt}, []bool{false, false, false, false, false}},
		{"a quarter at once with the one before it", []time.Duration{0, rtt, 0, rtt, 0, rtt, 0}, []bool{false, false, false, false, false, false, false}},
		{"after a pause", []time.Duration{0, time.Minute, 0, 0, 0}, []bool{false, false, false, false, true}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var p pace
			for i, wait := range x.waits {
				<-time.After(wait)
				if got := p.limits(window, part, rtt); got != x.want[i] {
					t.Errorf("%s: quarter %d: %v", x.name, i, got)
				}
			}
		})
	}
}

// TestConnWindowGrows: the connection's window becomes twice as large when it limits the peer over a long round trip, to at most twice
// MaxWindow, to what arrives at Config.Rate and to Unread.
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
		{"Rate", certainRTT, 2, Config{Rate: 50 << 20}, 2 * int(50<<20*0.015)},
		{"Unread", certainRTT, 2, Config{Unread: 1100 << 10}, 1100 << 10},
	} {
		x.conf.idleAfter = time.Hour
		p := newPair(t, pipeWiring, Config{idleAfter: time.Hour}, x.conf)
		c := p.s
		c.mu.Lock()
		r := &c.recv
		r.rtt, r.timed, r.unacked = x.rtt, x.timed, 0
		before, size := r.conn, r.size
		r.pace = pace{since: now() + instant(time.Hour)}
		r.returnable = r.size / 2
		c.returnConnWindow()
		if r.size != x.want || r.conn-before != size/2+r.size-size {
			t.Errorf("%s: %d bytes, not %d, of which %d were given", x.name, r.size, x.want, r.conn-before)
		}
		c.mu.Unlock()
	}
}
