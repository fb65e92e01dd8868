package h2

import "github.com/tarn-go/tarn"

// onData delivers a DATA frame, piece by piece as it arrives.
func (c *Conn) onData(f frame) error {
	if f.id == 0 {
		return c.fault(ProtocolError, "DATA on stream 0")
	}
	n, pad := f.length, 0
	if f.has(flagPadded) {
		if n < 1 {
			return c.fault(FrameSizeError, "DATA without its padding's length")
		}
		p, err := c.peek(1)
		if err != nil {
			return err
		}
		pad = int(p[0])
		if _, err := c.in.r.Discard(1); err != nil {
			return err
		}
		if n--; pad > n {
			return c.fault(ProtocolError, "DATA with more padding than frame")
		}
		n -= pad
	}
	e := More
	complete := c.in.r.Buffered() >= n && pad == 0
	if complete {
		e = f.ending()
	}
	s, err := c.acceptData(f, n, e)
	if s == nil {
		if derr := c.discard(n + pad); derr != nil {
			return derr
		}
		return err
	}
	if complete {
		return c.deliverBuffered(s, f, n)
	}
	if err := c.deliverPieces(s, f, n); err != nil {
		return err
	}
	return c.discard(pad)
}

// acceptData accounts for a DATA frame with n bytes of payload, of which e says
// whether it ends the stream now. A nil stream means that the payload is to be
// skipped and the error, if any, handled.
func (c *Conn) acceptData(f frame, n int, e Ending) (*Stream, error) {
	c.lock()
	defer c.mu.Unlock()
	if !c.inflow.receive(f.length) {
		return nil, c.fault(FlowControlError, "DATA beyond the connection's window")
	}
	if c.send.queued() > mostQueued {
		return nil, c.fault(EnhanceYourCalm, "the peer does not read")
	}
	s := c.stream(f.id)
	if s == nil {
		c.openWindows(nil)
		return nil, c.strayData(f, n)
	}
	if n == 0 && !f.has(flagEndStream) {
		if err := c.countUseless(); err != nil {
			return nil, err
		}
	} else {
		c.limiter.noteUseful()
	}
	several := c.current != nil && c.current != s // streams have frames in this read
	c.setCurrent(s)
	var err error
	switch {
	case s.peerDone():
		err = &StreamError{Code: StreamClosed, Fault: Peer, Reason: "DATA after the end"}
	case !s.gotHeaders:
		err = &StreamError{Code: ProtocolError, Fault: Peer, Reason: "DATA before HEADERS"}
	case !s.inflow.permits(f.length):
		err = &StreamError{Code: FlowControlError, Fault: Peer, Reason: "DATA beyond the stream's window"}
	case s.length >= 0 && (int64(n) > s.length || int64(n) < s.length && f.has(flagEndStream)):
		err = &StreamError{Code: ProtocolError, Fault: Peer, Reason: "content that is not as long as content-length says"}
	}
	if err != nil {
		c.openWindows(nil)
		return nil, err
	}
	if s.length >= 0 {
		s.length -= int64(n)
	}
	c.delivered(s, f.length, n)
	if e == End {
		c.peerEnded(s)
	}
	if s.is(released) {
		return nil, nil
	}
	if after := c.in.r.Buffered() - n; several && n <= goodBatch && !f.has(flagEndStream) && after >= 0 && after < frameHeaderLen && c.batch == nil {
		c.send.gatherReplies() // a BatchHandler wakes later
	}
	return s, nil
}

// strayData says what is wrong with DATA on a stream that is not open, with n bytes of payload. c.mu is held.
func (c *Conn) strayData(f frame, n int) error {
	idle := f.id > c.lastID
	if c.side == client {
		idle = f.id >= c.nextID
	}
	switch {
	case f.id&1 == 0 || idle && !c.lifetime.reached(draining):
		return c.fault(ProtocolError, "DATA on an idle stream")
	case c.side == server && !c.recent.has(f.id) && !c.lifetime.reached(draining):
		return &StreamError{Code: StreamClosed, Fault: Peer, Reason: "DATA on a closed stream"}
	case n > 0 && !c.recent.forgot(f.id):
		return nil // not counted: the peer may have sent a window of small messages before it learned that the stream was reset
	}
	return c.countUseless()
}

// deliverBuffered delivers a frame that is buffered entirely.
func (c *Conn) deliverBuffered(s *Stream, f frame, n int) error {
	e := f.ending()
	if n == 0 {
		if e == End {
			c.h.OnData(s, tarn.Buffer{}, e)
		}
		return nil
	}
	if c.in.lander != nil {
		for n > 0 {
			dst := c.in.lander.Land(s, n)
			if len(dst) == 0 {
				break
			}
			m, err := c.in.r.ReadFull(dst[:min(n, len(dst))])
			if err != nil {
				return err
			}
			n -= m
			if n == 0 {
				c.in.lander.Landed(s, m, e)
				return nil
			}
			c.in.lander.Landed(s, m, More)
		}
	}
	b, err := c.in.r.Next(n)
	if err != nil {
		return err
	}
	c.h.OnData(s, b, e)
	return nil
}

// deliverPieces delivers a frame of which part has yet to arrive.
func (c *Conn) deliverPieces(s *Stream, f frame, n int) error {
	if n == 0 {
		if f.has(flagEndStream) && c.noteDelivery(s, End) {
			c.h.OnData(s, tarn.Buffer{}, End)
		}
		return nil
	}
	if c.in.lander != nil && n >= shrinkFrom {
		c.in.r.ShrinkNext() // of the next such frame more will go where it stays
	}
	for n > 0 {
		m, e := 0, More
		var dst []byte
		if c.in.lander != nil {
			dst = c.in.lander.Land(s, n)
		}
		var b tarn.Buffer
		var err error
		if c.in.r.Buffered() == 0 || len(dst) == 0 && n < onePieceBelow && c.in.r.Buffered() < n {
			c.pauseInFrame()
		}
		switch {
		case len(dst) > 0:
			m, err = c.in.r.Read(dst[:min(n, len(dst))])
		case n < onePieceBelow:
			b, err = c.in.r.Next(n)
			m = n
		default:
			if _, err = c.in.r.Peek(1); err == nil {
				b = c.in.r.NextBuffered(n)
				m = b.Len()
			}
		}
		if err != nil {
			return unexpected(err)
		}
		c.noteReceived() // with each piece: a frame may take longer to arrive than keepalive waits
		if n -= m; n == 0 {
			e = f.ending()
		}
		if !c.noteDelivery(s, e) {
			b.Free()
			return c.discard(n)
		}
		if len(dst) > 0 {
			c.in.lander.Landed(s, m, e)
		} else {
			c.h.OnData(s, b, e)
		}
	}
	return nil
}

// noteDelivery reports whether DATA for s is still delivered to the layer above, and
// notes the peer's end.
func (c *Conn) noteDelivery(s *Stream, e Ending) bool {
	c.lock()
	defer c.mu.Unlock()
	if s.state == closed || s.is(released) {
		return false
	}
	if e == End {
		c.peerEnded(s)
	}
	return true
}
