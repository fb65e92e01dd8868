package h2

import "encoding/binary"

// SetPriority sets the order in which DATA of s is sent relative to other streams
// of the connection. A later PRIORITY_UPDATE of the peer replaces it. It does not block.
func (s *Stream) SetPriority(p Priority) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setPriority(s, p)
}

// SetInitialPriority is SetPriority for the value of the request's priority field. If
// the peer has sent a PRIORITY_UPDATE for s, also before the request, that stays in
// force (RFC 9218 section 7). After IgnorePriority it does nothing.
func (s *Stream) SetInitialPriority(p Priority) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.peer.signals == ignored {
		return
	}
	c.peer.signals = signalled
	if !s.updated {
		c.setPriority(s, p)
	}
}

// IgnorePriority has the connection ignore what the peer sends about priorities from now on, so that DATA of new streams is
// sent in turns. It is for peers that are intermediaries, whose clients must not delay each other's responses (RFC 9218 section 13.1).
func (c *Conn) IgnorePriority() {
	c.mu.Lock()
	c.peer.signals = ignored
	c.mu.Unlock()
}

// SendPriority sends the peer a PRIORITY_UPDATE for s (RFC 9218 section 7.1) and
// does not block. On a stream that has ended it does nothing. It panics on a
// server, which may not send one.
func (s *Stream) SendPriority(p Priority) {
	c := s.c
	if c.side == server {
		panic("h2: SendPriority on the server's side")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.state == closed || c.lifetime.reached(closing) {
		return
	}
	v := p.String()
	payload := c.put(frame{typ: framePriorityUpdate, length: 4 + len(v)})
	binary.BigEndian.PutUint32(payload, s.id)
	copy(payload[4:], v)
	c.send.flush(flushWithRun)
}

func (c *Conn) setPriority(s *Stream, p Priority) {
	if p.Urgency = min(p.Urgency, maxUrgency); p == s.priority {
		return
	}
	if w := s.wait; w != nil {
		c.ready.forget(w)
		defer c.list(w)
	}
	s.priority = p
}

// onPriorityUpdate takes a PRIORITY_UPDATE (RFC 9218 section 7.1).
func (c *Conn) onPriorityUpdate(f frame) error {
	switch {
	case c.side == client:
		return c.fault(ProtocolError, "PRIORITY_UPDATE from a server")
	case f.id != 0:
		return c.fault(ProtocolError, "PRIORITY_UPDATE on a stream")
	case f.length < 4:
		return c.fault(FrameSizeError, "PRIORITY_UPDATE shorter than 4")
	}
	n := min(f.length, 4+maxPriorityLen)
	p, err := c.peek(n)
	if err != nil {
		return err
	}
	id := binary.BigEndian.Uint32(p) & (1<<31 - 1)
	var v string
	if n == f.length {
		v = string(p[4:])
	}
	if err := c.discard(f.length); err != nil {
		return err
	}
	if id == 0 || id&1 == 0 {
		return c.fault(ProtocolError, "PRIORITY_UPDATE for a stream that clients do not open")
	}
	c.lock()
	defer c.mu.Unlock()
	if !c.limiter.countUseless() {
		return c.fault(EnhanceYourCalm, "too many frames that carry nothing")
	}
	if c.peer.signals == ignored {
		return nil
	}
	c.peer.signals = signalled
	if s := c.streams.get(id); s != nil {
		s.updated = true
		c.setPriority(s, ParsePriority(v))
		return nil
	}
	if id <= c.lastID || c.lifetime.reached(draining) {
		return nil // of a stream that has ended, or that is not served
	}
	_, known := c.in.early[id]
	switch {
	case !known && c.inflow.isKnown() && len(c.in.early)+c.streams.len() >= c.cfg.MaxStreams:
		return c.fault(ProtocolError, "PRIORITY_UPDATE for more streams than may be open")
	case !known && len(c.in.early) >= maxEarlyPriorities:
		return nil
	case c.in.early == nil:
		c.in.early = make(map[uint32]Priority)
	}
	c.in.early[id] = ParsePriority(v)
	return nil
}

// takeEarlyPriority takes the priority that the peer sent for stream id before it opened it,
// if it did, and forgets those of lower ids, which cannot be opened any more.
func (c *Conn) takeEarlyPriority(id uint32) (p Priority, sent bool) {
	p, sent = c.in.early[id]
	for early := range c.in.early {
		if early <= id {
			delete(c.in.early, early)
		}
	}
	return p, sent
}

// onPriority checks a PRIORITY and ignores it (RFC 9113 section 5.3.2).
func (c *Conn) onPriority(f frame) error {
	if f.id == 0 {
		return c.fault(ProtocolError, "PRIORITY on stream 0")
	}
	if f.length != 5 {
		if err := c.discard(f.length); err != nil {
			return err
		}
		return &StreamError{Code: FrameSizeError, Fault: Peer, Reason: "PRIORITY of another length than 5"}
	}
	p, err := c.fixed(f, 5, "")
	if err != nil {
		return err
	}
	dep := binary.BigEndian.Uint32(p[:]) & (1<<31 - 1)
	if dep == f.id {
		return &StreamError{Code: ProtocolError, Fault: Peer, Reason: "a stream that depends on itself"}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.countUseless()
}
