package h2

import (
	"encoding/binary"
	"strconv"

	"github.com/tarn-go/tarn/h2/internal/hpack"
)

// onHeaders reads a header list with all its frames and delivers it.
func (c *Conn) onHeaders(f frame) error {
	if f.id == 0 || f.id&1 == 0 {
		return c.fault(ProtocolError, "HEADERS on a stream that clients do not open")
	}
	bad, err := c.readBlock(f)
	if err != nil {
		return err
	}
	if bad != nil && bad.Conn {
		return c.fault(CompressionError, bad.Reason)
	}
	return c.deliverHeaders(f, bad)
}

const lateHeaders = "a header list took longer than HeaderTimeout"

var errLateHeaders = &ConnError{Code: EnhanceYourCalm, Fault: Peer, Reason: lateHeaders}

// readBlock reads the header block that f starts and decodes it. The error ends the
// connection; bad is what is wrong with the list.
func (c *Conn) readBlock(f frame) (bad *hpack.Malformed, err error) {
	if d := c.cfg.HeaderTimeout; d > 0 && (!f.has(flagEndHeaders) || c.in.r.Buffered() < f.length) {
		timer := c.abortAfter(d, errLateHeaders)
		defer timer.Stop()
	}
	if f.has(flagEndHeaders) && f.length <= peekBlock {
		p, err := c.peek(f.length)
		if err != nil {
			return nil, unexpected(err)
		}
		if p, err = c.strip(f, p); err != nil {
			return nil, err
		}
		bad = c.in.dec.Decode(p, &c.in.hdr)
		c.in.hdr.Length = len(p)
		_, err = c.in.r.Discard(f.length)
		return bad, err
	}
	b := blockReader{limit: max(2*c.cfg.MaxHeaderList+1<<10, hpack.MinPart)}
	defer func() {
		if cap(c.in.frag) > maxKeptBlock {
			c.in.frag = nil
		}
	}()
	c.in.frag = c.in.frag[:0]
	pad, err := c.readPrefix(&f)
	if err != nil {
		return nil, err
	}
	if err := c.readFragment(&b, f.length-pad); err != nil {
		return nil, err
	}
	if err := c.discard(pad); err != nil {
		return nil, unexpected(err)
	}
	for n, g := 0, f; !g.has(flagEndHeaders); {
		h, err := c.peek(frameHeaderLen)
		if err != nil {
			return nil, unexpected(err)
		}
		g = parseFrame(h)
		n++
		switch {
		case g.typ != frameContinuation || g.id != f.id:
			return nil, c.fault(ProtocolError, "a header block interrupted")
		case g.length > c.cfg.MaxFrameSize:
			return nil, c.fault(FrameSizeError, "a frame longer than offered")
		case n > c.cfg.Limits.Continuations:
			return nil, c.fault(EnhanceYourCalm, "too many CONTINUATION frames")
		}
		if _, err := c.in.r.Discard(frameHeaderLen); err != nil {
			return nil, err
		}
		if err := c.readFragment(&b, g.length); err != nil {
			return nil, err
		}
	}
	switch {
	case b.skip > 0:
		bad = &hpack.Malformed{Conn: true, Reason: "a header block that ends within a field"}
	case b.long:
		bad = c.in.dec.EndLong(c.in.frag)
	default:
		bad = c.in.dec.Decode(c.in.frag, &c.in.hdr)
	}
	c.in.hdr.Length = b.total
	return bad, nil
}

// blockReader is the state of a header block that takes several frames, or one that is
// too long for the receive buffer. What has come is in reading.frag.
type blockReader struct {
	limit int  // how many bytes are gathered
	long  bool // it is longer than that, and decoded part by part
	total int  // bytes so far
	skip  int  // how many bytes of a field that is longer than limit are still to be dropped
}

// readFragment takes the next n bytes of a header block as they arrive.
func (c *Conn) readFragment(b *blockReader, n int) error {
	if b.total += n; b.total > longFactor*b.limit {
		return c.fault(EnhanceYourCalm, "a header block beyond the limit")
	}
	for n > 0 {
		if c.in.r.Buffered() == 0 {
			if _, err := c.peek(1); err != nil {
				return unexpected(err)
			}
		}
		m := min(n, c.in.r.Buffered(), peekBlock)
		if b.skip > 0 {
			m = min(m, b.skip)
			if _, err := c.in.r.Discard(m); err != nil {
				return err
			}
			n, b.skip = n-m, b.skip-m
			continue
		}
		p, err := c.in.r.Peek(m)
		if err != nil {
			return unexpected(err)
		}
		c.in.frag = append(c.in.frag, p...)
		if _, err := c.in.r.Discard(m); err != nil {
			return err
		}
		n -= m
		if len(c.in.frag) <= b.limit {
			continue
		}
		if !b.long {
			b.long = true
			c.in.dec.BeginLong(&c.in.hdr)
		}
		left, bad := c.in.dec.DecodeLong(c.in.frag)
		if bad != nil {
			return c.fault(CompressionError, bad.Reason)
		}
		if len(left) > b.limit {
			if left, b.skip, bad = c.in.dec.SkipField(left); bad != nil {
				return c.fault(CompressionError, bad.Reason)
			}
		}
		c.in.frag = c.in.frag[:copy(c.in.frag, left)]
	}
	return nil
}

// readPrefix takes what stands before the header block in a HEADERS frame: the
// padding's length, which it returns, and the priority. f.length is then what follows.
func (c *Conn) readPrefix(f *frame) (pad int, err error) {
	n := 0
	if f.has(flagPadded) {
		n++
	}
	if f.has(flagPriority) {
		n += 5
	}
	if n > f.length {
		return 0, c.fault(FrameSizeError, "HEADERS without its padding's length or its priority")
	}
	p, err := c.peek(n)
	if err != nil {
		return 0, unexpected(err)
	}
	if f.has(flagPadded) {
		pad, p = int(p[0]), p[1:]
	}
	c.in.self = f.has(flagPriority) && binary.BigEndian.Uint32(p)&(1<<31-1) == f.id
	if _, err := c.in.r.Discard(n); err != nil {
		return 0, err
	}
	if f.length -= n; pad > f.length {
		return 0, c.fault(ProtocolError, "HEADERS with more padding than frame")
	}
	return pad, nil
}

// strip takes padding and priority off the payload of a HEADERS frame.
func (c *Conn) strip(f frame, p []byte) ([]byte, error) {
	pad := 0
	if f.has(flagPadded) {
		if len(p) < 1 {
			return nil, c.fault(FrameSizeError, "HEADERS without its padding's length")
		}
		pad, p = int(p[0]), p[1:]
	}
	c.in.self = false
	if f.has(flagPriority) {
		if len(p) < 5 {
			return nil, c.fault(FrameSizeError, "HEADERS without its priority")
		}
		// The block is decoded nevertheless: all streams share the table.
		c.in.self = binary.BigEndian.Uint32(p)&(1<<31-1) == f.id
		p = p[5:]
	}
	if pad > len(p) {
		return nil, c.fault(ProtocolError, "HEADERS with more padding than frame")
	}
	return p[:len(p)-pad], nil
}

// deliverHeaders finds or makes the stream that the list in c.in.hdr is for. bad
// is what is wrong with the list alone.
func (c *Conn) deliverHeaders(f frame, bad *hpack.Malformed) error {
	if bad != nil && bad.TooLong && c.cfg.LongHeaders == DeliverLong && c.side == server {
		c.in.dec.Truncate()
	}
	c.lock()
	c.pings.probed = false
	s := c.stream(f.id)
	var err error
	fresh := false
	if s == nil {
		if s, err = c.accept(f, bad); s == nil {
			c.mu.Unlock()
			return err
		}
		fresh = true
	}
	c.setCurrent(s)
	if err = c.checkHeaders(s, f, bad); err != nil {
		if fresh { // the layer above has not seen it: nothing to report or release
			s.flags |= released
		}
		c.mu.Unlock()
		return err
	}
	if c.side == client && c.in.hdr.Status/100 == 1 { // informational: RFC 9113 section 8.1
		inform, handled := c.h.(InformationalHandler)
		tell := handled && !s.is(released)
		s.informed += c.in.dec.Size()
		tooMany := !handled && s.informed > c.cfg.MaxHeaderList
		c.mu.Unlock()
		if tooMany {
			return &StreamError{Code: ProtocolError, Fault: Peer, Reason: "informational responses beyond the limit on header lists"}
		}
		if tell {
			inform.OnInformational(s, &c.in.hdr)
		}
		return nil
	}
	s.gotHeaders = true
	c.countHeaders(s, c.in.dec.Size())
	e := f.ending()
	if e == End {
		c.peerEnded(s)
	}
	tell := !s.is(released)
	c.mu.Unlock()
	if tell {
		c.h.OnHeaders(s, &c.in.hdr, e)
	}
	return nil
}

// accept opens the stream of a request, or says what is wrong with HEADERS on a
// stream that is not there. Both results nil: the frame is to be ignored.
// c.mu is held.
func (c *Conn) accept(f frame, bad *hpack.Malformed) (*Stream, error) {
	if c.side == client || f.id <= c.lastID {
		if c.side == client && f.id >= c.nextID {
			return nil, c.fault(ProtocolError, "HEADERS on an idle stream")
		}
		if c.side == client || c.recent.has(f.id) {
			return nil, c.countUseless()
		}
		return nil, c.fault(StreamClosed, "HEADERS on a closed stream")
	}
	if c.lifetime.reached(draining) { // beyond the last id that GOAWAY named
		if !c.limiter.countRefused() {
			c.in.delay = tooManyRefused
		}
		return nil, nil
	}
	c.lastID = f.id
	early, updated := c.takeEarlyPriority(f.id)
	if (bad == nil || bad.TooLong && c.cfg.LongHeaders == DeliverLong) && c.full() {
		// RFC 9113 section 5.1.2: the sender may try again. The peer is within its
		// rights when handlers of streams that have ended take the room, and before it
		// has acknowledged the limit.
		fault := Peer
		if c.streams.len() < c.cfg.MaxStreams || !c.inflow.isKnown() {
			fault = Local
		}
		return nil, &StreamError{Code: RefusedStream, Fault: fault, Reason: "too many streams"}
	}
	if !c.headersFit(0, c.in.dec.Size()) {
		return nil, &StreamError{Code: RefusedStream, Fault: Local, Reason: "too much memory in header lists"}
	}
	if c.send.queued() >= refuseAbove {
		return nil, &StreamError{Code: RefusedStream, Fault: Peer, Reason: "the peer does not read"}
	}
	c.limiter.noteUseful()
	s := c.newStream(f.id)
	if updated && c.peer.signals != ignored {
		s.priority, s.updated = early, true
	}
	return s, nil
}

// full reports whether no further stream is accepted: MaxStreams are open, or twice as many together with those that have ended and
// whose handlers still run. A peer that resets a stream may open the next one at once, before the handler has returned. c.mu is held.
func (c *Conn) full() bool {
	return c.streams.len() >= c.cfg.MaxStreams || c.opened >= 2*c.cfg.MaxStreams
}

// checkHeaders checks a list against the state of its stream. c.mu is held.
func (c *Conn) checkHeaders(s *Stream, f frame, bad *hpack.Malformed) error {
	h := &c.in.hdr
	self := c.in.self
	reason := ""
	trailers := s.gotHeaders
	switch {
	case s.peerDone():
		return &StreamError{Code: StreamClosed, Fault: Peer, Reason: "HEADERS after the end"}
	case bad != nil && bad.TooLong && c.cfg.LongHeaders == DeliverLong && c.side == server && !trailers && h.Method != "":
		h.Truncated = true // malformed or not: the handler is to answer 431
		return nil
	case bad != nil && bad.TooLong:
		return &StreamError{Code: EnhanceYourCalm, Fault: Peer, Reason: "a header list beyond the limit"}
	case bad != nil:
		reason = bad.Reason
	case !c.headersFit(s.headers, c.in.dec.Size()):
		return &StreamError{Code: EnhanceYourCalm, Fault: Local, Reason: "too much memory in header lists"}
	case self:
		reason = "a stream that depends on itself"
	case trailers && !f.has(flagEndStream):
		reason = "trailers that are not the end"
	case trailers && (h.Status != 0 || h.Protocol != "" || h.Method != "" || h.Path != "" || h.Scheme != "" || h.Authority != ""):
		reason = "pseudo-fields in trailers"
	case trailers:
	case c.side == server && (h.Method == "" || h.Status != 0):
		reason = "a request without its pseudo-fields"
	case c.side == server && badConnect(h, c.cfg.ExtendedConnect) != "":
		reason = badConnect(h, c.cfg.ExtendedConnect)
	case c.side == client && (h.Status == 0 || h.Protocol != "" || h.Method != "" || h.Path != "" || h.Scheme != "" || h.Authority != ""):
		reason = "a response without :status"
	case c.side == client && h.Status/100 == 1 && f.has(flagEndStream):
		reason = "an informational response that ends the stream"
	case c.side == client && h.Status == 101:
		reason = "status 101, which HTTP/2 does not have"
	}
	if reason == "" && !trailers {
		m := c.in.dec.Framing()
		switch {
		case m.Lengths > 1 && m.Differ:
			reason = "content-length twice, with different values"
		case m.Hosts > 1 && c.side == server:
			reason = "host twice"
		case m.Lengths > 0 && h.Status != 304 && (c.side == server || h.Status/100 != 1): // RFC 9110 section 8.6: a 1xx has no content
			length, err := strconv.ParseUint(m.Length, 10, 62)
			if err != nil {
				reason = "content-length that is no number"
			} else if s.length = int64(length); length > 0 && f.has(flagEndStream) && c.side == server {
				reason = "content-length without content"
			}
		}
	}
	if reason == "" && trailers && s.length > 0 {
		reason = "content shorter than content-length"
	}
	if reason != "" {
		return &StreamError{Code: ProtocolError, Fault: Peer, Reason: reason}
	}
	return nil
}

// headersFit reports whether n more bytes of header lists may be held for a stream that has had. Connections that ask at the same
// time may all be told so. c.mu is held.
func (c *Conn) headersFit(had, n int) bool {
	lim := &c.cfg.Limits
	return c.headers+n <= lim.HeaderMemory &&
		(had+n <= uncountedHeaders || c.counters.headers.Load()+int64(n) <= int64(lim.AllHeaderMemory))
}

// countHeaders counts n bytes of header lists that are held for s, or, below 0, that are not any more. c.mu is held.
func (c *Conn) countHeaders(s *Stream, n int) {
	before := max(0, s.headers-uncountedHeaders)
	s.headers += n
	c.headers += n
	if after := max(0, s.headers-uncountedHeaders); after != before {
		c.counters.headers.Add(int64(after - before))
	}
}

// peerEnded notes that the peer has ended its side of s. c.mu is held.
func (c *Conn) peerEnded(s *Stream) {
	c.advance(s, recvEnd, nil)
}

// badConnect says what is wrong with the pseudo-fields of a request as far as
// CONNECT is concerned (RFC 9113 section 8.5, RFC 8441 section 4); nothing: "".
func badConnect(h *Header, extended Permission) string {
	switch {
	case h.Protocol != "" && (extended == Deny || h.Method != "CONNECT"):
		return ":protocol that is not permitted"
	case h.Method == "CONNECT" && h.Protocol == "" && (h.Path != "" || h.Scheme != "" || h.Authority == ""):
		return "CONNECT with :scheme or :path, or without :authority"
	case (h.Method != "CONNECT" || h.Protocol != "") && (h.Path == "" || h.Scheme == ""):
		return "a request without its pseudo-fields"
	}
	return ""
}

// IgnoreLength ends the check of the DATA received on s against content-length. It
// is for the answer to a HEAD request, whose content-length describes content that
// is not sent. It must be called within the first OnHeaders for s.
func (s *Stream) IgnoreLength() { s.length = -1 }
