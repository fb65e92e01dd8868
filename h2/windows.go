package h2

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
	if taken < 0 || taken > s.inflow.unread {
		c.mu.Unlock()
		panic("h2: Consumed of more than was delivered")
	}
	c.inflow.consumed(&s.inflow, taken)
	s.inflow.returnable += reopened
	// Without a frame to write itself it leaves other streams' frames to the callers that queued them, which
	// may have more for the same write.
	if c.openWindows(s) {
		c.send.flush(flushWithRun)
	}
	c.mu.Unlock()
}

// delivered accounts for length bytes of DATA on s, of which n are delivered and the others padding. c.mu is held.
func (c *Conn) delivered(s *Stream, length, n int) {
	c.inflow.delivered(&s.inflow, length, n)
	c.openWindows(s)
}

// forgetUnread takes what s has not consumed off what counts as unread. c.mu is held.
func (c *Conn) forgetUnread(s *Stream) {
	c.inflow.consumed(&s.inflow, s.inflow.unread)
	c.openWindows(nil)
}

// openWindows queues what lets the peer send more on the connection and on s, which may be nil, once that is worth a frame, and reports
// whether it has. c.mu is held.
func (c *Conn) openWindows(s *Stream) bool {
	var of *streamInflow
	if s != nil && !s.peerDone() {
		of = &s.inflow
	}
	if c.lifetime.reached(shut) || !c.inflow.due(of) { // the clock is read for what is due alone
		return false
	}
	u := c.inflow.update(of, c.opened, now())
	c.putSettings(u)
	if u.conn > 0 {
		c.putWindow(0, u.conn)
	}
	if u.stream > 0 {
		c.putWindow(s.id, u.stream)
	}
	return true
}

// putSettings queues SETTINGS with the window of every stream, if u says so. c.mu is held.
func (c *Conn) putSettings(u windowUpdate) {
	if !u.settle {
		return
	}
	for t := range c.streams.all() {
		t.inflow.window += int64(u.wider)
	}
	putSetting(c.put(frame{typ: frameSettings, length: settingLen}), setWindow, uint32(c.inflow.window))
}
