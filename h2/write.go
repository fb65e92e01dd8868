package h2

import "context"

// Write sends o; it takes ownership of what o holds. It waits while the peer's
// flow-control windows, or a connection that does not take the bytes, keep the DATA back,
// until ctx is done (nil: as long as it takes); the stream is then still open, part
// of the DATA may have been sent, and Reset is in order. It never waits for the
// network in any other way, so that ctx ends it on every kind of connection. Frames
// may still be queued (up to 2 MiB on a connection) when Write returns: that the
// connection broke shows on the next call and by OnReset.
//
// Errors: ErrStreamDone when this side has ended or reset the stream, what OnReset
// says when the peer or the connection has ended it, or ctx's error. It panics as o.Source does.
func (s *Stream) Write(ctx context.Context, o *Out) error {
	c := s.c
	c.mu.Lock()
	gen := s.gen
	err := c.write(ctx, s, o)
	unused, twice := false, false
	if err == nil {
		m := c.send.together()
		if twice = o.Release && s.releasedSince(gen); o.Release && !twice {
			unused = c.release(s)
		}
		c.send.flush(m)
	}
	c.mu.Unlock()
	if twice {
		panic(releasedTwice)
	}
	if err != nil {
		o.failed(err)
	}
	if unused {
		c.becameUnused()
	}
	return err
}

// WriteLater is Write that leaves the sending to the caller's next Write or [Conn.Flush]
// on this connection, of which there must be one soon: several small messages then
// leave in one system call. Until then frames may stay queued, unless they
// fill a batch of 256 KiB. It takes ownership of what o holds.
func (s *Stream) WriteLater(ctx context.Context, o *Out) error {
	c := s.c
	c.mu.Lock()
	gen := s.gen
	err := c.write(ctx, s, o)
	unused, twice := false, false
	if err == nil && o.Release {
		if twice = s.releasedSince(gen); !twice {
			unused = c.release(s)
		}
	}
	if err == nil && c.send.queued() >= batchLimit {
		c.send.flush(flushWithRun)
	}
	c.mu.Unlock()
	if twice {
		panic(releasedTwice)
	}
	if err != nil {
		o.failed(err)
	}
	if unused {
		c.becameUnused()
	}
	return err
}

// Flush sends what WriteLater has queued. It does not wait for the network.
func (c *Conn) Flush() {
	c.mu.Lock()
	c.send.flush(flushWithRun)
	c.mu.Unlock()
}

// Post is Write for callbacks: it never waits. When the windows do not cover all
// of the DATA, or 2 MiB are queued because the peer does not read, it sends nothing and returns ErrWouldBlock. It takes
// ownership of what o holds.
func (s *Stream) Post(o *Out) error {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	err := s.sendable()
	o.freeEmpty()
	if left := o.dataLen(); err == nil && left > 0 && (int64(left) > min(s.out, c.peer.conn) || c.send.queued() >= refuseAbove) {
		err = ErrWouldBlock
	}
	if err != nil {
		o.free()
		return err
	}
	c.putOut(s, o)
	c.send.flush(flushWithRun)
	return nil
}

// sendable returns why nothing can be sent on s, if so.
func (s *Stream) sendable() error {
	switch {
	case s.state == closed:
		return s.err
	case s.state == halfClosedLocal:
		return ErrStreamDone
	}
	return s.c.lifetime.reason()
}

// write queues o, waiting where it must. It takes ownership of what o holds unless it fails:
// then that stays the caller's. c.mu is held, and given up by waitSent alone: the caller reads the state of s again.
func (c *Conn) write(ctx context.Context, s *Stream, o *Out) error {
	if err := s.sendable(); err != nil {
		return err
	}
	o.freeEmpty()
	if left := o.dataLen(); o.SourceLen == 0 && (left == 0 || c.fits(s, left)) {
		c.putOut(s, o)
		return nil
	}
	if o.hasHeader() {
		c.putHeaders(s, o.Block, o.Fields, More)
	}
	return c.waitSent(ctx, s, o)
}

// fits reports whether left bytes of DATA on s may be queued now: windows and batch
// have room for all of them, and no other DATA waits for its turn. c.mu is held.
func (c *Conn) fits(s *Stream, left int) bool {
	n := int64(left)
	return n <= s.out && n <= c.peer.conn && c.ready.empty() && left <= c.send.room()
}
