package h2

// state is where a stream stands (RFC 9113 section 5.1). Idle streams do not exist
// here, and nothing is reserved.
type state uint8

const (
	open             state = iota
	halfClosedLocal        // this side has sent END_STREAM
	halfClosedRemote       // the peer has
	closed                 // not in Conn.streams any more
	states
)

// event is what changes the state of a stream.
type event uint8

const (
	sendEnd      event = iota // END_STREAM was queued
	recvEnd                   // END_STREAM came
	sendReset                 // the layer above resets or releases the stream
	recvReset                 // RST_STREAM came
	peerFault                 // the peer broke the protocol or a limit on the stream
	beyondGoAway              // GOAWAY came, and the stream is beyond its last
	connFailed                // the connection has ended
	events
)

// effect is what a transition does besides.
type effect uint8

const (
	resetPeer effect = 1 << iota // RST_STREAM is sent
	tellUser                     // OnReset is called, unless the stream was released
	inOrder                      // both sides have ended as they should
	uncounts                     // the stream does not count against the limit any more
)

// transition is one cell of the table: where an event leads, and what it does.
type transition struct {
	to state
	do effect
}

// transitions is the table of all of them. A closed stream stays closed whatever happens, so that a stream
// leaves the table once and its end is reported once.
//
// A server that has ended first asks the client to stop sending (RFC 9113 section
// 8.1). On a server a stream that ends early counts against the limit until it is
// released, or a peer that opens and resets streams could start handlers without bound.
var transitions = [2][states][events]transition{
	client: {
		open: {
			sendEnd:      {halfClosedLocal, 0},
			recvEnd:      {halfClosedRemote, 0},
			sendReset:    {closed, resetPeer | uncounts},
			recvReset:    {closed, tellUser | uncounts},
			peerFault:    {closed, resetPeer | tellUser | uncounts},
			beyondGoAway: {closed, tellUser | uncounts},
			connFailed:   {closed, tellUser | uncounts},
		},
		halfClosedLocal: {
			sendEnd:      {halfClosedLocal, 0},
			recvEnd:      {closed, inOrder | uncounts},
			sendReset:    {closed, resetPeer | uncounts},
			recvReset:    {closed, tellUser | uncounts},
			peerFault:    {closed, resetPeer | tellUser | uncounts},
			beyondGoAway: {closed, tellUser | uncounts},
			connFailed:   {closed, tellUser | uncounts},
		},
		halfClosedRemote: {
			sendEnd:      {closed, inOrder | uncounts},
			recvEnd:      {halfClosedRemote, 0},
			sendReset:    {closed, resetPeer | uncounts},
			recvReset:    {closed, tellUser | uncounts},
			peerFault:    {closed, resetPeer | tellUser | uncounts},
			beyondGoAway: {closed, tellUser | uncounts},
			connFailed:   {closed, tellUser | uncounts},
		},
		closed: stays,
	},
	server: {
		open: {
			sendEnd:      {closed, resetPeer | inOrder | uncounts},
			recvEnd:      {halfClosedRemote, 0},
			sendReset:    {closed, resetPeer},
			recvReset:    {closed, tellUser},
			peerFault:    {closed, resetPeer | tellUser},
			beyondGoAway: {open, 0},
			connFailed:   {closed, tellUser},
		},
		halfClosedLocal: stays, // a server's streams do not get into this state
		halfClosedRemote: {
			sendEnd:      {closed, inOrder | uncounts},
			recvEnd:      {halfClosedRemote, 0},
			sendReset:    {closed, resetPeer},
			recvReset:    {closed, tellUser},
			peerFault:    {closed, resetPeer | tellUser},
			beyondGoAway: {halfClosedRemote, 0},
			connFailed:   {closed, tellUser},
		},
		closed: stays,
	},
}

var stays = [events]transition{
	sendEnd: {closed, 0}, recvEnd: {closed, 0}, sendReset: {closed, 0}, recvReset: {closed, 0},
	peerFault: {closed, 0}, beyondGoAway: {closed, 0}, connFailed: {closed, 0},
}

// ending says why a stream ends early: what OnReset and Write say, and the code of
// the RST_STREAM that is sent, if any.
type ending struct {
	err  error
	code Code
}

// advance applies ev to s; why is nil for sendEnd and recvEnd. It reports whether
// the caller has to call OnReset. c.mu is held.
func (c *Conn) advance(s *Stream, ev event, why *ending) (tell bool) {
	if ev == sendReset && c.lifetime.reached(closing) && !s.is(released) {
		return false // teardown calls OnReset for every stream
	}
	t := transitions[c.side][s.state][ev]
	if t.to == s.state {
		return false
	}
	s.state = t.to
	if t.do&inOrder != 0 {
		c.limiter.noteCompleted()
	}
	if t.to != closed {
		return false
	}
	code := NoError
	s.err = ErrStreamDone
	if why != nil {
		s.err, code = why.err, why.code
	}
	if t.do&resetPeer != 0 && !c.lifetime.reached(closing) { // then the connection's end is what the peer sees
		c.putReset(s.id, c.send.after(s.batch), code)
		if ev == sendReset && c.side == client {
			c.doubt(s)
		}
		c.remember(s.id, resetStream)
	}
	c.streams.remove(s)
	if s.wait != nil {
		c.endWait(s.wait, s.err)
		c.ready.forget(s.wait)
	}
	if t.do&uncounts != 0 {
		c.uncount(s)
	}
	tell = t.do&tellUser != 0 && !s.is(released)
	if s.is(released) {
		c.retire(s)
	}
	return tell
}

// peerDone reports whether the peer has ended its side of s, or s as a whole.
func (s *Stream) peerDone() bool { return s.state == halfClosedRemote || s.state == closed }

// resetByUser ends s at the request of the layer above. c.mu is held.
func (c *Conn) resetByUser(s *Stream, code Code) {
	c.advance(s, sendReset, &ending{ErrStreamDone, code})
}

// fail ends s because of err, which was ev, and calls OnReset if advance asks for it.
func (c *Conn) fail(s *Stream, ev event, err error) {
	c.lock()
	c.setCurrent(s)
	tell := c.advance(s, ev, &ending{err: err})
	c.mu.Unlock()
	if tell {
		c.h.OnReset(s, err)
	}
}

// uncount has s not count against the limit any more: another may be opened. c.mu is held.
func (c *Conn) uncount(s *Stream) {
	if s.is(counted) {
		s.flags &^= counted
		c.opened--
		c.wakeOpeners()
	}
}

// retire is called when s may have become both closed and released: then it no
// longer counts, and is kept for another call. c.mu is held.
func (c *Conn) retire(s *Stream) {
	if s.state != closed || !s.is(released) {
		return
	}
	c.inUse--
	c.uncount(s)
	c.forgetUnread(s)
	c.countHeaders(s, -s.headers)
	if s != c.current {
		c.recycle(s)
	}
	if c.inUse == 0 {
		c.noteUnused()
		c.awaitIdleness()
		if c.lifetime.is(announced) {
			c.askGoAwaySoon()
		}
		c.endDrained()
	}
}
