package h2

import "encoding/binary"

// onWindow takes a WINDOW_UPDATE (RFC 9113 section 6.9).
func (c *Conn) onWindow(f frame) error {
	p, err := c.fixed(f, 4, "WINDOW_UPDATE of another length than 4")
	if err != nil {
		return err
	}
	n := int64(binary.BigEndian.Uint32(p[:]) & (1<<31 - 1))
	c.lock()
	defer c.mu.Unlock()
	if !c.limiter.countUseless() {
		return c.fault(EnhanceYourCalm, "too many frames that carry nothing")
	}
	if f.id == 0 {
		if n == 0 {
			return c.fault(ProtocolError, "WINDOW_UPDATE of nothing")
		}
		if c.peer.conn += n; c.peer.conn > maxWindow {
			return c.fault(FlowControlError, "a window beyond 2^31-1")
		}
		return nil
	}
	s := c.stream(f.id)
	if s == nil {
		return c.stray(f.id, "WINDOW_UPDATE on an idle stream")
	}
	if n == 0 {
		return &StreamError{Code: ProtocolError, Fault: Peer, Reason: "WINDOW_UPDATE of nothing"}
	}
	if s.out += n; s.out > maxWindow {
		return &StreamError{Code: FlowControlError, Fault: Peer, Reason: "a window beyond 2^31-1"}
	}
	c.relist(s)
	return nil
}

// stray says what is wrong with a harmless frame on a stream that is not open:
// nothing if it was once. c.mu is held.
func (c *Conn) stray(id uint32, reason string) error {
	next := c.lastID + 1
	if c.side == client {
		next = c.nextID
	}
	if id&1 == 0 || id >= next && !c.lifetime.reached(draining) {
		return c.fault(ProtocolError, reason)
	}
	return nil
}

// onReset takes a RST_STREAM (RFC 9113 section 6.4).
func (c *Conn) onReset(f frame) error {
	p, err := c.fixed(f, 4, "RST_STREAM of another length than 4")
	if err != nil {
		return err
	}
	code := Code(binary.BigEndian.Uint32(p[:]))
	if f.id == 0 {
		return c.fault(ProtocolError, "RST_STREAM on stream 0")
	}
	c.counters.resetsRecv.Add(1)
	c.lock()
	s := c.stream(f.id)
	if s == nil {
		defer c.mu.Unlock()
		if c.recent.takeRefused(f.id) {
			return nil // it crossed the refusal, which has been counted
		}
		if !c.limiter.countUseless() {
			return c.fault(EnhanceYourCalm, "too many frames that carry nothing")
		}
		if c.side == server && c.cfg.IdleResets == Permit && f.id&1 == 1 {
			return nil
		}
		return c.stray(f.id, "RST_STREAM on an idle stream")
	}
	if c.side == server && s.wasteful() && !c.limiter.countGivenUp() {
		c.in.delay = tooManyResets
	}
	c.setCurrent(s)
	why := &StreamError{Code: code, Fault: Told}
	tell := c.advance(s, recvReset, &ending{err: why})
	c.mu.Unlock()
	if tell {
		c.h.OnReset(s, why)
	}
	return nil
}

// wasteful reports whether the peer's reset of s is one of a stream that was not
// served: the server has not started its handler yet and the call's own deadline has
// not passed. An attack makes such resets. A client whose calls time out while the
// server is slow does not, unless the server has too little processor time to read a
// request before its reset. c.mu is held.
func (s *Stream) wasteful() bool {
	if s.handler.Load() == started {
		return false
	}
	return s.deadline == 0 || now()+instant(deadlineSlack) < s.deadline
}
