package h2

import (
	"errors"
	"io"
	"os"
)

// teardown ends a connection whose reading ended with err.
func (c *Conn) teardown(err error) error {
	var ce *ConnError
	c.mu.Lock()
	if c.err == nil {
		c.err = err
		if errors.As(err, &ce) {
			c.putGoAway(c.lastID, ce.Code, ce.Reason)
			c.limitEnd()
			c.sendLast()
		}
	}
	why := c.err
	waits := c.send.closing
	c.mu.Unlock()
	if waits && !justEnd(err) && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.discardInput()
	}
	c.nc.Close()
	c.in.r.Release()

	c.mu.Lock()
	c.life = dead
	c.send.shut = true
	orphans := make([]*Stream, 0, len(c.streams))
	for _, s := range c.streams {
		orphans = append(orphans, s)
	}
	if why == io.EOF && len(orphans) > 0 {
		why = io.ErrUnexpectedEOF
		c.err = why
	}
	c.awaitQuiet() // who writes meets the closed connection and gives up
	c.dropQueued()
	c.dropWriter()
	c.wakeAllOpeners()
	c.dropPings()
	if c.secondGoAway != nil {
		c.secondGoAway.Stop()
	}
	c.mu.Unlock()
	c.stopKeepalive()
	for _, s := range orphans {
		c.fail(s, connFailed, why)
	}
	c.mu.Lock()
	c.setCurrent(nil)
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

// discardInput reads on for a moment and throws away what comes: closing with bytes
// unread would reset the connection and with it the GOAWAY on its way.
func (c *Conn) discardInput() {
	for left := 1 << 20; left > 0; {
		if _, err := c.in.r.Peek(1); err != nil {
			return
		}
		b := c.in.r.NextBuffered(left)
		left -= b.Len()
		b.Free()
	}
}
