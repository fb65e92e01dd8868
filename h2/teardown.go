package h2

import (
	"errors"
	"io"
	"net"
	"os"
	"time"
)

// teardown ends a connection whose reading ended with err.
func (c *Conn) teardown(err error) error {
	if c.batch != nil {
		c.batch.OnBatchEnd()
	}
	var ce *ConnError
	c.mu.Lock()
	if c.err == nil {
		c.err = err
		if errors.As(err, &ce) {
			c.putGoAway(c.lastID, ce.Code, ce.Reason)
			c.sendLast() // before its time is limited: a goroutine may lose the processor for longer
			c.limitEnd()
		}
	}
	why := c.err
	waits := c.send.closes()
	c.mu.Unlock()
	if waits && !isEnd(err) && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.awaitSent()
		c.discardInput()
	}
	c.closeSocket()
	c.in.r.Release()

	c.mu.Lock()
	ending := c.life > alive
	c.become(socketClosed)
	c.send.stop()
	orphans := make([]*Stream, 0, len(c.streams))
	for _, s := range c.streams {
		orphans = append(orphans, s)
	}
	if g := c.goAway; ending && len(orphans) == 0 && g != nil && g.Code == NoError && why != ErrClosed && !errors.As(why, &ce) {
		why = io.EOF // both sides were to end, and this one has learnt by a write that the peer has
	}
	why = c.sayWhy(why, len(orphans))
	c.err = why
	c.awaitQuiet() // a goroutine that writes sees the closed connection and stops
	c.dropQueued()
	c.dropWriter()
	c.wakeAllOpeners()
	c.dropPings()
	if c.shutdown != nil && c.shutdown.timer != nil {
		c.shutdown.timer.Stop()
	}
	c.mu.Unlock()
	c.stopKeepalive()
	for _, s := range orphans {
		c.fail(s, connFailed, why)
	}
	c.report(why)
	c.mu.Lock()
	c.setCurrent(nil)
	c.become(streamsFailed)
	if c.done != nil {
		close(c.done)
	}
	c.mu.Unlock()
	if why == ErrClosed || why == io.EOF {
		return nil
	}
	return why
}

// closeSocket closes the connection. TLS sends an alert before, and waits for a full
// socket for up to five seconds: after abortTimeout the connection below is closed. Where
// that one cannot be reached, Close goes on by itself.
//
// When a record of TLS could not be sent, or not all of it, the peer could not decrypt the
// alert: it would see a bad record MAC in place of the connection's end. The connection
// below is closed first then.
func (c *Conn) closeSocket() {
	switch c.nc.(type) {
	case *net.TCPConn, *net.UnixConn:
		c.nc.Close()
		return
	}
	c.mu.Lock()
	cut := c.send.broken()
	c.mu.Unlock()
	if cut {
		closeBelow(c.nc)
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		c.nc.Close()
	}()
	timer := time.NewTimer(abortTimeout)
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
		if closeBelow(c.nc) {
			<-closed
		}
	}
}

// closeBelow closes the connection below nc, if it can be reached.
func closeBelow(nc net.Conn) (reached bool) {
	upper, ok := nc.(interface{ NetConn() net.Conn })
	if ok {
		upper.NetConn().Close()
	}
	return ok
}

// sayWhy returns why the connection ended, given the error that reading met: what the
// peer's GOAWAY said, if it said more than that. c.mu is held.
func (c *Conn) sayWhy(err error, streams int) error {
	var ce *ConnError
	if err == ErrClosed || errors.As(err, &ce) {
		return err
	}
	if err == io.EOF && streams > 0 {
		err = io.ErrUnexpectedEOF
	}
	if g := c.goAway; g != nil && (g.Code != NoError || err != io.EOF) {
		return &ConnError{Code: g.Code, Fault: Told, Reason: g.Debug, Err: err}
	}
	return err
}

// discardInput reads on for a bounded time and discards what comes: closing with bytes
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
