package h2

import "time"

// inflow is the flow control of what comes in. From what has come, what was read and what a round trip takes it makes what is to be sent so
// that the peer may send more. It knows neither connections, nor clocks, nor locks. The connection's window is given back on receipt, unless
// too much lies unread; a stream's when the application has read.
//
// What the peer may send on the connection and what is not given back are together the whole window; what it may send and what lies unread are
// together at most Config.Unread and Config.ConnWindow.
type inflow struct {
	cfg        *Config       // the windows and Unread
	window     int           // what a stream may hold now; grows to MaxWindow
	size       int           // the connection's whole window
	conn       int           // what the peer may send on the connection
	returnable int           // received on the connection and not given back
	unread     int           // received and not consumed, all streams together
	pace       pace          // of the connection's window
	unacked    int           // SETTINGS sent and not acknowledged
	timed      int           // acknowledgements that rtt is of
	sent       instant       // when the last SETTINGS left
	rtt        time.Duration // what the fastest acknowledgement took; 0: not known
}

// streamInflow is what inflow knows of one stream.
type streamInflow struct {
	window     int64 // what the peer may send
	returnable int   // consumed, not yet given back
	unread     int   // received, not yet consumed
	pace       pace
}

// windowUpdate is what is to be sent so that the peer may send more. The zero windowUpdate is nothing.
type windowUpdate struct {
	conn   int  // by how much the connection's window opens
	stream int  // by how much the stream's does
	wider  int  // how much larger the window of every stream has become, which SETTINGS say
	settle bool // SETTINGS are sent, for that or to measure the round trip
}

func (f *inflow) init(cfg *Config) {
	f.cfg = cfg
	f.window = cfg.Window
	f.size = firstWindow(cfg)
	f.conn = f.size
}

// firstWindow is what the connection's window begins with.
func firstWindow(cfg *Config) int { return max(cfg.ConnWindow, initialWindow) }

// open returns what inflow knows of a new stream. The peer may send this side's setting or, until it has received that, the
// protocol's initial window.
func (f *inflow) open() streamInflow {
	w := f.window
	if f.unacked > 0 {
		w = max(w, initialWindow)
	}
	return streamInflow{window: int64(w)}
}

// receive takes n bytes that have come off the connection's window. It reports false if the peer has sent more than it may.
func (f *inflow) receive(n int) bool {
	if n > f.conn {
		return false
	}
	f.conn -= n
	f.returnable += n
	return true
}

// delivered takes length bytes, which have been received, off the window of s; n of them are delivered, the others padding.
func (f *inflow) delivered(s *streamInflow, length, n int) {
	s.window -= int64(length)
	s.unread += n
	f.unread += n
	s.returnable += length - n
}

// permits reports whether the peer may send n bytes.
func (s *streamInflow) permits(n int) bool { return int64(n) <= s.window }

// consumed takes n bytes off what counts as unread.
func (f *inflow) consumed(s *streamInflow, n int) {
	s.unread -= n
	f.unread -= n
}

// returnFrom returns how many bytes of a window, a stream's or the connection's, are worth a WINDOW_UPDATE. Many streams share the
// connection's window and use all of it at once: by half of it, 64 callers with messages of 16 KiB sent 0.13 more small writes a call,
// HEADERS without the DATA that had to wait, and took a tenth more processor time.
func returnFrom(window int) int { return min(max(window/4, 1), maxReturn) }

// due reports whether update has anything to send; s is nil where the peer sends no more on the stream.
func (f *inflow) due(s *streamInflow) bool {
	return f.connDue() || s != nil && s.returnable >= returnFrom(f.window)
}

func (f *inflow) connDue() bool { return min(f.returnable, f.allowance()) >= returnFrom(f.size) }

// allowance is by how much the peer may be let send more on the connection: what lies unread and what it may send are together at most
// Unread and the window that the connection begins with. Otherwise a peer could make the window grow and then fill it.
func (f *inflow) allowance() int {
	n := int64(f.cfg.Unread) - int64(f.unread) + int64(firstWindow(f.cfg)) - int64(f.conn) // beyond an int of 32 bits
	return int(min(max(0, n), maxWindow))
}

// update returns what is to be sent of the connection's window and that of s, which is nil where the peer sends no more on the stream, with
// that many streams open. It takes for granted that it is sent.
func (f *inflow) update(s *streamInflow, streams int, now instant) (u windowUpdate) {
	if f.connDue() {
		n := min(f.returnable, f.allowance())
		f.returnable -= n
		f.conn += n
		u.conn = n + f.growConn(&u, n, now)
	}
	if s != nil && s.returnable >= returnFrom(f.window) {
		f.grow(&u, s, streams, now)
		u.stream = s.returnable
		s.window += int64(s.returnable)
		s.returnable = 0
	}
	return u
}

// widen makes the connection's window d bytes larger.
func (f *inflow) widen(d int) int {
	f.size += d
	f.conn += d
	return d
}

// growConn widens the connection's window, of which n bytes are given back, by as much as it is if it is what limits the peer,
// and returns by how much. It is of use to many short streams, each of which ends before a window of its own limits it.
func (f *inflow) growConn(u *windowUpdate, n int, now instant) int {
	if f.rtt <= steadyRTT || f.cfg.MaxWindow == f.cfg.Window {
		return 0 // not known, or near: more would not help
	}
	most := min(twice(f.cfg.MaxWindow), f.cfg.Unread)
	if f.size >= most || !f.pace.fill(f.size, n, f.rtt, now) || !f.confirm(u, now) {
		return 0
	}
	return f.widen(min(f.size, most-f.size, f.allowance()))
}

// grow widens the window of every stream when that of s, which is about to be returned, is what limits the peer. A round trip is measured
// by the acknowledgement of SETTINGS, so growth costs no PING. The caller adds u.wider to the windows of the streams.
func (f *inflow) grow(u *windowUpdate, s *streamInflow, streams int, now instant) {
	next := f.nextWindow(streams)
	if next <= f.window || f.near() && next/nearGrowth < f.window {
		return // a little more does not help a near peer
	}
	if !s.pace.fill(f.window, s.returnable, f.rtt, now) || f.unacked > 0 || !f.confirm(u, now) {
		return
	}
	u.wider = next - f.window
	f.window = next
	f.settle(u, now)
	if d := min(twice(f.window)-f.size, f.allowance()); d > 0 {
		u.conn += f.widen(d)
	}
}

// confirm reports whether the round trip may be relied on. Otherwise it has it confirmed: the window is announced as it is, for another acknowledgement, unless
// one is under way.
func (f *inflow) confirm(u *windowUpdate, now instant) bool {
	if f.timed > 1 || f.rtt >= certainRTT {
		return true
	}
	if f.unacked == 0 {
		f.settle(u, now)
	}
	return false
}

// settle has SETTINGS sent.
func (f *inflow) settle(u *windowUpdate, now instant) {
	u.settle = true
	f.announce(now)
}

// announce notes that SETTINGS leave, whose acknowledgement is timed.
func (f *inflow) announce(now instant) {
	f.unacked++
	f.sent = now
}

// leave corrects when SETTINGS leave.
func (f *inflow) leave(now instant) { f.sent = now }

// isKnown reports whether the peer has acknowledged the first SETTINGS, and so knows this side's limits.
func (f *inflow) isKnown() bool { return f.timed > 0 }

// settled reports whether the peer has acknowledged all SETTINGS.
func (f *inflow) settled() bool { return f.unacked == 0 }

// connWindow is what the peer may send on the connection.
func (f *inflow) connWindow() int64 { return int64(f.conn) }

// known returns what the peer may send on the connection and on a new stream, what lies unread, and the round trip.
func (f *inflow) known() (conn int64, stream, unread int, rtt time.Duration) {
	return int64(f.conn), f.window, f.unread, f.rtt
}

// acknowledge notes that the peer has acknowledged SETTINGS. It reports false if none were sent.
func (f *inflow) acknowledge(now instant) bool {
	if f.unacked == 0 {
		return false
	}
	f.unacked--
	f.timed++
	if rtt := now.since(f.sent); f.rtt == 0 || rtt < f.rtt {
		f.rtt = rtt
	}
	return true
}

// near reports whether a round trip is known to be short.
func (f *inflow) near() bool { return f.rtt > 0 && f.rtt <= steadyRTT }

// nextWindow returns what the window of a stream may grow to when that many are open.
func (f *inflow) nextWindow(streams int) int {
	if f.rtt == 0 {
		return 0
	}
	// Beyond Unread the peer could fill the windows of all streams.
	most := min(f.cfg.MaxWindow, f.cfg.Unread/max(1, streams))
	if f.near() {
		return min(most, nearWindow)
	}
	if f.window <= most/growth { // the product could be beyond an int of 32 bits
		return growth * f.window
	}
	return most
}

// twice returns 2*window, at most the largest window of HTTP/2.
func twice(window int) int { return window + min(window, maxWindow-window) }

// pace times how fast a window is filled, and so finds whether the window is what limits the peer.
type pace struct {
	since  instant // when the timing began; 0: it has not
	filled int     // bytes of the window since then
}

// fill adds n bytes of a window that the peer has filled by now, and reports whether the peer would fill all of it in less than two round
// trips at the rate at which it has filled half of it: then it waits for WINDOW_UPDATEs. Until half of the window is timed it reports false.
// With less, what a pause of this process or of the network lets through at once would count as the network's rate.
func (p *pace) fill(window, n int, rtt time.Duration, now instant) bool {
	p.filled += n
	if p.since != 0 && p.filled < window/2 {
		return false
	}
	fast := p.since != 0 && float64(now.since(p.since))*float64(window) < 2*float64(rtt)*float64(p.filled)
	*p = pace{since: now}
	return fast
}
