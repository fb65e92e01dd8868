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
			c.kickSoon()
		} else {
			c.gather()
			c.kick()
		}
	}
	c.mu.Unlock()
	if err != nil {
		o.free()
	}
	return s, err
}

// open takes ownership of what o holds unless it fails: then that stays the caller's.
func (c *Conn) open(ctx context.Context, v any, o *Out) (*Stream, error) {
	if c.side == server {
		panic("h2: Open on the server's side")
	}
	for {
		if err := c.openable(); err != nil {
			return nil, err
		}
		full := c.queued() >= queueLimit
		if c.opened < c.send.maxStreams && !full {
			break
		}
		if ctx == nil && full {
			return nil, ErrWouldBlock
		}
		if ctx == nil || o.NoWait && !full {
			return nil, ErrStreamLimit
		}
		if err := c.waitOpen(ctx); err != nil {
			return nil, err
		}
	}
	if ctx == nil && int64(o.left()) > min(c.send.window, c.send.conn) {
		return nil, ErrWouldBlock
	}
	s := c.newStream(c.nextID)
	if c.send.greeted { // the connection may be idle
		c.watchPeer(c.cfg.Keepalive.Time)
	}
	s.Value = v
	c.nextID += 2
	o.Opened = true
	if ctx == nil {
		c.putOut(s, o)
		return s, nil
	}
	if left := o.left(); o.LeaveData && left > 0 {
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
		c.kick()
		return nil, err
	}
	return s, nil
}

// openable returns why no stream can be opened at all, if so.
func (c *Conn) openable() error {
	switch {
	case c.err != nil:
		return c.err
	case c.goAway != nil:
		return c.goAway
	case c.life != alive:
		return ErrClosed
	case c.nextID > maxStreamID:
		return ErrNoStreamIDs
	}
	return nil
}

// waitOpen waits for its turn to open a stream. c.mu is held, but not throughout.
func (c *Conn) waitOpen(ctx context.Context) error {
	turn := make(chan struct{})
	c.send.openers = append(c.send.openers, turn)
	c.counters.waiting.Add(1)
	defer c.counters.waiting.Add(-1)
	c.mu.Unlock()
	select {
	case <-turn:
		c.mu.Lock()
		return nil
	case <-ctx.Done():
		why := ctx.Err() // without c.mu, as in waitSent
		c.mu.Lock()
		if i := slices.Index(c.send.openers, turn); i >= 0 {
			c.send.openers = slices.Delete(c.send.openers, i, i+1)
		} else {
			c.wakeOpeners() // another Open may use the room
		}
		return why
	}
}

// wakeOpeners lets as many Opens that wait look again as there is room for. c.mu is
// held.
func (c *Conn) wakeOpeners() {
	if c.queued() >= queueLimit {
		return
	}
	for n := c.send.maxStreams - c.opened; n > 0 && len(c.send.openers) > 0; n-- {
		close(c.send.openers[0])
		c.send.openers[0] = nil
		c.send.openers = c.send.openers[1:]
	}
}

// wakeAllOpeners makes every waiting Open fail. c.mu is held.
func (c *Conn) wakeAllOpeners() {
	for _, w := range c.send.openers {
		close(w)
	}
	c.send.openers = nil
}
