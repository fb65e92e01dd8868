package h2

import "time"

// receiving is the flow control of what comes in; guarded by Conn.mu. The
// connection's window is given back on receipt, unless too much lies unconsumed;
// a stream's when the application has consumed.
type receiving struct {
	window       int           // what a stream may hold now; grows to MaxWindow
	conn         int           // what the peer may send on the connection
	size         int           // the connection's whole window
	returnable   int           // received on the connection and not given back
	pace         pace          // of the connection's window
	unread       int           // received and not consumed, all streams together
	headers      int           // size of the header lists of streams that have not been released
	unacked      int           // SETTINGS sent and not acknowledged
	acknowledged bool          // the peer has acknowledged the first of them, and so knows MaxStreams
	settingsSent time.Time     // when the last of them left
	rtt          time.Duration // what the fastest acknowledgement took; 0: not known
	timed        int           // acknowledgements that rtt is of
	handling     bool          // Run handles frames it has read, and flushes when it has
}

func (r *receiving) init(cfg *Config) {
	r.window = cfg.Window
	r.size = max(cfg.ConnWindow, initialWindow)
	r.conn = r.size
}

// streamWindow is what the peer may send on a new stream: until it has received this
// side's setting, the protocol's initial window.
func (r *receiving) streamWindow() int64 {
	if r.unacked > 0 {
		return int64(max(r.window, initialWindow))
	}
	return int64(r.window)
}

// maxReturn bounds how many bytes of a window are kept back until they are worth a
// WINDOW_UPDATE.
const maxReturn = 1 << 20

// returnFrom returns how many bytes of a window, a stream's or the connection's, are worth a WINDOW_UPDATE. Many streams share the
// connection's window and use all of it at once: by half of it, 64 callers with messages of 16 KiB sent 0.13 more small writes a call,
// HEADERS without the DATA that had to wait, and took a tenth more processor time.
func returnFrom(window int) int { return min(max(window/4, 1), maxReturn) }

// near reports whether a round trip is known to be short.
func (r *receiving) near() bool { return r.rtt > 0 && r.rtt <= steadyRTT }

// returnConnWindow gives the connection's window back once much of it can be, and reports
// whether it has. c.mu is held.
func (c *Conn) returnConnWindow() bool {
	r := &c.recv
	n := min(r.returnable, c.roomToSend())
	if n < returnFrom(r.size) || c.lifetime.reached(shut) {
		return false
	}
	r.returnable -= n
	r.conn += n
	d := min(c.growConn(n), c.roomToSend())
	r.size += d
	r.conn += d
	c.putWindow(0, n+d)
	return true
}

// roomToSend is by how much the peer may be let send more on the connection: what lies unread and what it may send are together at most
// Unread and the window that the connection begins with. Otherwise a peer could make the window grow and then fill it. c.mu is held.
func (c *Conn) roomToSend() int {
	r := &c.recv
	return max(0, c.cfg.Unread-r.unread+max(c.cfg.ConnWindow, initialWindow)-r.conn)
}

// growConn widens the connection's window, of which n bytes are about to be given back, by as much as it is if it is what limits the peer,
// and returns by how much. It is of use to many short streams, each of which ends before a window of its own limits it. c.mu is held.
func (c *Conn) growConn(n int) int {
	r := &c.recv
	if r.rtt <= steadyRTT || c.cfg.MaxWindow == c.cfg.Window {
		return 0 // not known, or near: more would not help
	}
	most := min(twice(c.boundByRate(c.cfg.MaxWindow)), c.cfg.Unread)
	if r.size >= most || !r.pace.limits(r.size, n, r.rtt) || !c.certain() {
		return 0
	}
	return min(r.size, most-r.size)
}

// Consumed says that the application has taken n bytes that were delivered on s,
// so that the peer may send as many more. It does not block. It panics when n is
// more than was delivered. It is Taken and Reopen in one.
func (s *Stream) Consumed(n int) { s.account(n, n) }

// Taken says that n of the bytes that were delivered on s do not count against
// Config.Unread any more, while the peer may not send more on s: its window stays
// shut until Reopen. It does not block, and panics as Consumed does. The caller
// bounds what it has taken.
func (s *Stream) Taken(n int) { s.account(n, 0) }

// Reopen lets the peer send n more bytes on s, for as many that were Taken.
func (s *Stream) Reopen(n int) { s.account(0, n) }

// account takes taken bytes off what counts as unread and gives reopened bytes of the
// stream's window back.
func (s *Stream) account(taken, reopened int) {
	c := s.c
	c.mu.Lock()
	if s.is(released) { // by another goroutine, during a callback: all is given back
		c.mu.Unlock()
		return
	}
	if taken < 0 || taken > s.unread {
		c.mu.Unlock()
		panic("h2: Consumed of more than was delivered")
	}
	put := c.consumed(s, taken)
	s.returnable += reopened
	// Without a frame to write itself it leaves other streams' frames to the callers that queued them, which
	// may have more for the same write.
	if c.returnStreamWindow(s) || put {
		c.flush(flushWithRun)
	}
	c.mu.Unlock()
}

// consumed takes n bytes off what counts as unread, and reports whether a WINDOW_UPDATE
// is to be sent for it. c.mu is held.
func (c *Conn) consumed(s *Stream, n int) bool {
	s.unread -= n
	c.recv.unread -= n
	return c.returnConnWindow()
}

// returnStreamWindow gives the window of s back once much of it can be, and reports
// whether it has. c.mu is held.
func (c *Conn) returnStreamWindow(s *Stream) bool {
	if s.returnable < returnFrom(c.recv.window) || s.peerDone() || c.lifetime.reached(shut) {
		return false
	}
	c.grow(s)
	c.putWindow(s.id, s.returnable)
	s.in += int64(s.returnable)
	s.returnable = 0
	return true
}

const (
	// growth is the factor by which the window grows at a time.
	growth = 4
	// longGrowth is growth where a round trip is longer than steadyRTT: each time takes one,
	// in which the peer waits.
	longGrowth = 64
	// certainRTT is from when a round trip is not doubted that one acknowledgement alone has shown. A shorter one may be
	// mostly the time for which a goroutine or thread waited for a processor.
	certainRTT = 8 * time.Millisecond
)

// grow widens the window of every stream when that of s, which is about to be returned, is what limits the peer. A round trip is measured
// by the acknowledgement of SETTINGS, so growth costs no PING. c.mu is held.
func (c *Conn) grow(s *Stream) {
	r := &c.recv
	next := c.nextWindow()
	if next <= r.window || r.near() && next < twice(r.window) && next < c.cfg.MaxWindow {
		return // a little more does not help a near peer
	}
	if !s.pace.limits(r.window, s.returnable, r.rtt) || r.unacked > 0 || !c.certain() {
		return
	}
	added := next - r.window
	r.window = next
	for _, t := range c.streams {
		t.in += int64(added)
	}
	c.announceWindow()
	if d := min(twice(r.window)-r.size, c.roomToSend()); d > 0 {
		c.putWindow(0, d)
		r.size += d
		r.conn += d
	}
}

// twice returns 2*window, at most the largest window of HTTP/2.
func twice(window int) int { return window + min(window, maxWindow-window) }

// certain reports whether the round trip may be relied on. Otherwise it announces the window as it is, for another acknowledgement, unless
// one is under way. c.mu is held.
func (c *Conn) certain() bool {
	r := &c.recv
	if r.timed > 1 || r.rtt >= certainRTT {
		return true
	}
	if r.unacked == 0 {
		c.announceWindow()
	}
	return false
}

// announceWindow sends the streams' window as SETTINGS, whose acknowledgement is timed. c.mu is held.
func (c *Conn) announceWindow() {
	putSetting(c.put(frame{typ: frameSettings, length: settingLen}), setWindow, uint32(c.recv.window))
	c.recv.unacked++
	c.recv.settingsSent = time.Now()
}

// nextWindow returns what the window may grow to. c.mu is held.
func (c *Conn) nextWindow() int {
	r := &c.recv
	if r.rtt == 0 {
		return 0
	}
	factor := growth
	if r.rtt > steadyRTT {
		factor = longGrowth
	}
	// Beyond Unread the peer could fill the windows of all streams.
	next := min(c.cfg.MaxWindow, c.cfg.Unread/max(1, c.opened))
	if r.window <= next/factor { // the product could be beyond an int of 32 bits
		next = factor * r.window
	}
	return c.boundByRate(next)
}

// boundByRate returns window, or what arrives at [Config.Rate] while a peer must be able to send, if that is less. c.mu is held.
func (c *Conn) boundByRate(window int) int {
	if rate := c.cfg.Rate; rate > 0 {
		return int(min(float64(window), float64(rate)*roomTime(c.recv.rtt).Seconds()))
	}
	return window
}

// steadyRTT is a round trip that a window need not exceed, since it does not leave the
// machine or the rack. Longer ones vary with the load on the way and on both ends.
const steadyRTT = time.Millisecond

// roomTime returns for how long a peer must be able to send without a WINDOW_UPDATE: a
// round trip, and once more the part of it above steadyRTT.
func roomTime(rtt time.Duration) time.Duration { return rtt + max(0, rtt-steadyRTT) }
