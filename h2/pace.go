package h2

import "time"

// pace times how fast a window is filled, and so finds whether the window is what limits the peer.
type pace struct {
	since  instant // when the timing began; 0: it has not
	filled int     // bytes of the window since then
}

// limits adds n bytes of a window that the peer has filled, and reports whether the peer would fill all of it in less than two round
// trips at the rate at which it has filled half of it: then it waits for WINDOW_UPDATEs. Until half of the window is timed it reports false.
// With less, what a pause of this process or of the network lets through at once would count as the network's rate.
func (p *pace) limits(window, n int, rtt time.Duration) bool {
	p.filled += n
	if p.since != 0 && p.filled < window/2 {
		return false
	}
	t := now()
	fast := p.since != 0 && float64(t.since(p.since))*float64(window) < 2*float64(rtt)*float64(p.filled)
	*p = pace{since: t}
	return fast
}
