package h2

import (
	"context"
	"slices"
)

const (
	// assumedStreams is how many streams a client opens before the peer's SETTINGS
	// say how many it permits (RFC 9113 section 6.5.2 recommends no less).
	assumedStreams = 100
	maxStreamID    = 1<<31 - 1
)

// Open starts a stream with the header, DATA and ending of o, which leave in one
// write if they can. v becomes the stream's Value before anything can come back.
// While the peer permits no further stream, or its windows keep the DATA back,
// Open waits until ctx is done; with a nil ctx it returns ErrStreamLimit, or
// ErrWouldBlock without having opened anything. With o.NoWait it returns ErrStreamLimit,
// too, where it would wait for a stream. With o.LeaveData and a ctx it sends the header alone where the DATA would
// wait, and leaves o.Data to the caller, for Write; if the DATA was sent, and with an error, o.Data is empty
// afterwards. Apart from that it takes ownership of what o holds.
//
// Other errors: what ended the connection, *GoAwayError when the peer takes no
// more streams, ErrClosed after Shutdown or Close, ErrNoStreamIDs. The peer has seen
// nothing of the request unless o.Opened is set. When Open waits for windows and
// fails, it resets the stream, and OnReset may have been called for it.
func (c *Conn) Open(ctx context.Context, v any, o *Out) (*Stream, error) {
	c.mu.Lock()
	s, err := c.open(ctx, v, o)
	if err == nil {
		if ctx == nil {
			c.send.flush(flushWithRun)
		} else {
			c.send.flush(c.send.together())
		}
	}
	unused := c.leavesUnused(o, err)
	c.mu.Unlock()
	if err != nil {
		o.free()
	}
	if unused {
		c.becameUnused()
	}
	return s, err
}

// OpenLater is Open that leaves the sending to the next Write on this connection, or [Conn.Flush], of which there must be one soon: the header
// then leaves with the first DATA in one write.
func (c *Conn) OpenLater(ctx context.Context, v any, o *Out) (*Stream, error) {
	c.mu.Lock()
	s, err := c.open(ctx, v, o)
	unused := c.leavesUnused(o, err)
	c.mu.Unlock()
	if err != nil {
		o.free()
	}
	if unused {
		c.becameUnused()
	}
	return s, err
}

// leavesUnused reports whether the open of o, which returned err, has left the connection unused. c.mu is held.
func (c *Conn) leavesUnused(o *Out, err error) bool {
	return err != nil && o.Opened && c.inUse == 0 && c.events != nil
}

// open takes ownership of what o holds unless it fails: then that stays the caller's. c.mu is held, and given up by waitOpen, before there
// is a stream, and by waitSent.
func (c *Conn) open(ctx context.Context, v any, o *Out) (*Stream, error) {
	if c.side == server {
		panic("h2: Open on the server's side")
	}
	err := c.openableNow(len(c.openers))
	if ctx != nil && o.waitsFor(err) {
		err = c.waitOpen(ctx, o)
	}
	if err != nil {
		return nil, err
	}
	o.freeEmpty()
	if ctx == nil && int64(o.dataLen()) > min(c.peer.window, c.peer.conn) {
		return nil, ErrWouldBlock
	}
	s := c.newStream(c.nextID)
	if c.peer.greeted { // the connection may be idle
		c.watchPeer(c.cfg.Keepalive.Time)
	}
	s.Value = v
	c.nextID += 2
	o.Opened = true
	if ctx == nil {
		c.putOut(s, o)
		return s, nil
	}
	if left := o.dataLen(); o.LeaveData && left > 0 {
		if !c.fits(s, left) {
			c.putHeaders(s, o.Block, o.Fields, More)
			return s, nil
		}
		c.putOut(s, o)
		return s, nil
	}
	if err := c.write(ctx, s, o); err != nil {
		s.flags |= released
		if s.state == closed {
			c.retire(s)
		} else {
			c.resetByUser(s, Cancel)
		}
		c.send.flush(flushInTurn)
		return nil, err
	}
	return s, nil
}

// openable returns why no stream can be opened at all, if so.
func (c *Conn) openable() error {
	switch {
	case c.lifetime.reached(closing):
		return c.lifetime.reason()
	case c.goAway != nil:
		return c.goAway
	case !c.lifetime.is(alive):
		return ErrClosed
	case c.nextID > maxStreamID:
		return ErrNoStreamIDs
	}
	return nil
}

// openableNow returns why no stream can be opened now: what openable returns, ErrStreamLimit when no more
// streams are permitted than the Opens ahead, which have waited longer, will take, or ErrWouldBlock
// while too much is queued. c.mu is held.
func (c *Conn) openableNow(ahead int) error {
	if err := c.openable(); err != nil {
		return err
	}
	switch {
	case c.opened+ahead >= c.peer.maxStreams || c.pings.doubtful >= mostDoubtful:
		return ErrStreamLimit
	case c.send.full():
		return ErrWouldBlock
	}
	return nil
}

// waitsFor reports whether an Open of o that may wait does so when openableNow returns err.
func (o *Out) waitsFor(err error) bool {
	return err == ErrWouldBlock || err == ErrStreamLimit && !o.NoWait
}

// opener is an Open that waits.
type opener struct {
	turn   chan struct{} // receives when it should try again
	noWait bool          // it waits until less is queued, and not for a stream
}

func (w opener) wake() {
	select {
	case w.turn <- struct{}{}:
	default: // it has yet to look
	}
}

// waitOpen waits until there is room to open a stream for o. An Open that waits keeps its place
// until it returns, so that streams are taken in the order in which Opens began to wait. c.mu is
// held, but not while it waits: openableNow is asked again.
func (c *Conn) waitOpen(ctx context.Context, o *Out) error {
	w := opener{make(chan struct{}, 1), o.NoWait}
	c.openers = append(c.openers, w)
	c.counters.waiting.Add(1)
	defer c.counters.waiting.Add(-1)
	for {
		c.mu.Unlock()
		var err error
		select {
		case <-w.turn:
			c.mu.Lock()
			err = c.openableNow(slices.Index(c.openers, w))
		case <-ctx.Done():
			err = ctx.Err() // without c.mu, as in waitSent
			c.mu.Lock()
		}
		if o.waitsFor(err) {
			continue
		}
		c.removeOpener(w)
		if err != nil {
			c.wakeOpeners() // another Open may take its place
		}
		return err
	}
}

// removeOpener takes an Open off the list of those that wait. It is mostly among the first. c.mu is held.
func (c *Conn) removeOpener(w opener) {
	all := c.openers
	i := slices.Index(all, w)
	copy(all[1:], all[:i])
	all[0] = opener{}
	c.openers = all[1:]
}

// wakeOpeners makes as many Opens that wait look again as can open. c.mu is
// held.
func (c *Conn) wakeOpeners() {
	if c.send.full() {
		return
	}
	n := min(c.peer.maxStreams-c.opened, len(c.openers))
	for i := 0; i < n; i++ {
		c.openers[i].wake()
	}
}

// endNoWaits makes the Opens fail that do not wait for a stream, and for which a lowered limit on streams leaves none. c.mu is held.
func (c *Conn) endNoWaits() {
	for i, w := range c.openers {
		if w.noWait && c.opened+i >= c.peer.maxStreams {
			w.wake()
		}
	}
}

// wakeAllOpeners makes every waiting Open fail: openable returns an error. c.mu is held.
func (c *Conn) wakeAllOpeners() {
	for _, w := range c.openers {
		w.wake()
	}
}
