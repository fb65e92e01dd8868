package h2

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"time"
)

// partTimeout is how long a server waits for the answer between its two GOAWAYs.
const partTimeout = 5 * time.Second

// Shutdown ends the connection once its streams have ended and been released. A
// server says so with two GOAWAYs, a round trip apart, so that no request under
// way is lost; a client opens no more streams. It does not wait: Run returns when
// it is done.
func (c *Conn) Shutdown() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life != alive || c.err != nil {
		return
	}
	if c.side == client {
		c.life = draining
		c.wakeAllOpeners()
		if c.held == 0 {
			c.finish()
		}
		return
	}
	c.life = parting
	c.putGoAway(maxStreamID, NoError, "")
	c.putPing(0, partPing)
	c.flush(deferred)
	c.partBy = time.AfterFunc(partTimeout, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.part()
		c.flush(deferred)
	})
}

// part sends the second GOAWAY: no stream beyond lastID will be served. c.mu is
// held.
func (c *Conn) part() {
	if c.life != parting {
		return
	}
	c.life = draining
	c.putGoAway(c.lastID, NoError, "")
	if c.held == 0 {
		c.finish()
	}
}

// finish ends a connection in order: what is queued is sent, then nothing more.
// c.mu is held.
func (c *Conn) finish() {
	if c.err != nil {
		return
	}
	c.err = ErrClosed
	if c.side == client {
		c.putGoAway(0, NoError, "")
	}
	c.lastWords()
}

// hurry bounds how long the rest of a connection's life may take. c.mu is held.
func (c *Conn) hurry() {
	c.send.hurried = true
	c.send.limit = time.Now().Add(farewell)
	c.nc.SetDeadline(c.send.limit)
}

// lastWords sends what is queued and then nothing more; Run goes on reading until
// the peer hangs up or loses patience. c.mu is held.
func (c *Conn) lastWords() {
	c.send.closing = true
	c.wakeAllOpeners()
	c.flush(immediate)
}

// Abort ends the connection with a GOAWAY of code and debug (at most 1 KiB of it
// is sent). Streams that are left fail with a *ConnError. It does not wait; Run
// returns within a quarter of a second.
func (c *Conn) Abort(code Code, debug string) {
	c.abort(code, debug, &ConnError{Code: code, Reason: debug})
}

// Close ends the connection at once with a GOAWAY of NO_ERROR. Streams that are
// left fail with ErrClosed. It does not wait and its error is always nil.
func (c *Conn) Close() error {
	c.abort(NoError, "", ErrClosed)
	return nil
}

func (c *Conn) abort(code Code, debug string, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		c.hurry() // what was to end in order
		return
	}
	c.err = why
	c.putGoAway(c.lastID, code, debug)
	c.lastWords()
	c.hurry()
}

// onGoAway takes a GOAWAY (RFC 9113 section 6.8): streams beyond its last were not
// processed and are handed back.
func (c *Conn) onGoAway(f frame) error {
	if f.id != 0 {
		return c.fault(ProtocolError, "GOAWAY on a stream")
	}
	if f.length < 8 {
		return c.fault(FrameSizeError, "GOAWAY shorter than 8")
	}
	n := min(f.length, 8+maxDebug)
	p, err := c.peek(n)
	if err != nil {
		return err
	}
	why := &GoAwayError{
		Last:  binary.BigEndian.Uint32(p) & (1<<31 - 1),
		Code:  Code(binary.BigEndian.Uint32(p[4:])),
		Debug: string(p[8:n]),
	}
	if err := c.discard(f.length); err != nil {
		return err
	}
	c.lock()
	if !c.guard.empty() {
		c.mu.Unlock()
		return c.fault(EnhanceYourCalm, "too many frames that carry nothing")
	}
	if c.goAway != nil && why.Last > c.goAway.Last {
		c.mu.Unlock()
		return c.fault(ProtocolError, "GOAWAY that takes back the one before")
	}
	c.goAway = why
	c.wakeAllOpeners()
	var lost []*Stream
	if c.side == client {
		if c.life < draining {
			c.life = draining
		}
		for id, s := range c.streams {
			if id > why.Last {
				s.err = why
				s.state |= wasReset
				lost = append(lost, s)
			}
		}
	}
	c.mu.Unlock()
	if c.events != nil {
		c.events.OnGoAway(c, why)
	}
	for _, s := range lost {
		c.fail(s, why)
	}
	c.lock()
	if c.life == draining && c.held == 0 {
		c.finish()
	}
	c.mu.Unlock()
	return nil
}

// fail ends s because of err and tells the layer above.
func (c *Conn) fail(s *Stream, err error) {
	c.lock()
	if s.is(closed) {
		c.mu.Unlock()
		return
	}
	c.setCur(s)
	s.err = err
	s.state |= wasReset
	c.closeStream(s)
	tell := !s.is(released)
	c.mu.Unlock()
	if tell {
		c.h.OnReset(s, err)
	}
}

// teardown ends a connection whose reading ended with err.
func (c *Conn) teardown(err error) error {
	var ce *ConnError
	c.mu.Lock()
	if c.err == nil {
		c.err = err
		if errors.As(err, &ce) {
			c.putGoAway(c.lastID, ce.Code, ce.Reason)
			c.hurry()
			c.lastWords()
		}
	}
	why := c.err
	waits := c.send.closing
	c.mu.Unlock()
	if waits && !justEnd(err) && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.linger()
	}
	c.nc.Close()
	c.in.r.Release()

	c.mu.Lock()
	c.life = dead
	c.recv.amid = true // nobody sends any more
	orphans := make([]*Stream, 0, len(c.streams))
	for _, s := range c.streams {
		orphans = append(orphans, s)
	}
	if why == io.EOF && len(orphans) > 0 {
		why = io.ErrUnexpectedEOF
		c.err = why
	}
	if c.send.busy { // whoever sends meets the closed connection and gives up
		idle := make(chan struct{})
		c.send.idle = idle
		c.mu.Unlock()
		<-idle
		c.mu.Lock()
	}
	c.dropQueued()
	c.wakeAllOpeners()
	c.dropPings()
	if c.partBy != nil {
		c.partBy.Stop()
	}
	c.mu.Unlock()
	c.stopKeepalive()
	for _, s := range orphans {
		c.fail(s, why)
	}
	c.mu.Lock()
	c.setCur(nil)
	c.life = over
	if c.done != nil {
		close(c.done)
	}
	c.mu.Unlock()
	if why == ErrClosed || why == io.EOF {
		return nil
	}
	return why
}

// linger reads on for a moment and throws away what comes: closing with bytes
// unread would reset the connection and with it the GOAWAY on its way.
func (c *Conn) linger() {
	for left := 1 << 20; left > 0; {
		if _, err := c.in.r.Peek(1); err != nil {
			return
		}
		b := c.in.r.NextBuffered(left)
		left -= b.Len()
		b.Free()
	}
}
