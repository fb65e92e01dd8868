package h2

import (
	"errors"
	"io"
	"net"
	"os"
)

// become applies ev and reports whether the connection's life has changed. Opens that wait fail when it does, and its end is bounded as
// the table says: for aborted by the caller, who calls limitEnd when the GOAWAY is sent as far as the system takes it, because a goroutine
// may lose the processor for longer than abortTimeout. c.mu is held.
func (c *Conn) become(ev lifeEvent, why error) bool {
	changed := c.lifetime.advance(c.side, ev, why)
	if changed {
		c.wakeAllOpeners()
	}
	if ev != aborted {
		c.limitEnd()
	}
	return changed
}

// teardown ends a connection whose reading ended with err.
func (c *Conn) teardown(err error) error {
	if c.batch != nil {
		c.batch.OnBatchEnd()
	}
	var ce *ConnError
	c.mu.Lock()
	why := c.lifetime.reason()
	if why == nil {
		why = err
	}
	why = c.sayWhy(why)
	waits := c.lifetime.reached(closing) // for the peer to read the GOAWAY
	if errors.As(err, &ce) && c.goAwayAndEnd(ce.Code, ce.Reason, why) {
		waits = true
	} else {
		c.become(readFailed, why)
	}
	waits = waits && !c.send.hasFailed()
	c.mu.Unlock()
	if waits && !isEnd(err) && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.awaitSent()
		c.discardInput()
	}
	c.closeSocket()
	c.in.r.Release()

	c.mu.Lock()
	c.become(socketClosed, nil)
	stopped := c.send.whenStopped()
	c.mu.Unlock()
	if stopped != nil {
		<-stopped // a goroutine that writes sees the closed connection and stops
	}

	c.mu.Lock()
	orphans := make([]*Stream, 0, c.streams.len())
	for s := range c.streams.all() {
		orphans = append(orphans, s)
	}
	c.send.dropQueued()
	c.send.endParked()
	c.endPings()
	c.stopTimers()
	c.mu.Unlock()
	for _, s := range orphans {
		c.fail(s, connFailed, why)
	}
	c.report(why)
	c.mu.Lock()
	c.setCurrent(nil)
	if c.done == nil {
		c.done = make(chan struct{})
	}
	close(c.done)
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
	partial := c.send.broken()
	c.mu.Unlock()
	if partial {
		closeBelow(c.nc)
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		c.nc.Close()
	}()
	if !endsWithin(closed) && closeBelow(c.nc) {
		<-closed
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

// sayWhy returns why the connection ended, given the error that reading met, or what ended it before: what the
// peer's GOAWAY said, if it said more than that. c.mu is held.
func (c *Conn) sayWhy(err error) error {
	var ce *ConnError
	if err == ErrClosed || errors.As(err, &ce) {
		return err
	}
	g, streams := c.goAway, c.streams.len()
	bothEnd := g != nil && g.Code == NoError && (c.side == client || c.lifetime.shutdownWasCalled())
	switch {
	case bothEnd && streams == 0:
		return io.EOF // although this side may have learnt by a write that the peer has ended
	case err == io.EOF && streams > 0:
		err = io.ErrUnexpectedEOF
	}
	if g != nil && (g.Code != NoError || err != io.EOF) {
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

// writeCloser is a connection whose writing half can be closed.
type writeCloser interface{ CloseWrite() error }

// closeWriting closes the writing half of a connection that is closing, now that
// everything is sent. c.mu is held.
func (c *Conn) closeWriting() {
	if !c.become(allSent, nil) {
		return
	}
	h, canShut := c.nc.(writeCloser)
	switch {
	case canShut:
		// Not Close: the peer's last frames would reset what it has yet to read.
		c.aside(func() error { return closeWrite(c.nc, h) })
	case c.side == server && !c.lifetime.aborting() && c.lifetime.takesDeadlines():
		// For the same reason: a client that has read the GOAWAY closes the connection, or the deadline ends it.
	default:
		c.aside(c.nc.Close)
	}
}

// closeWrite closes the writing half of nc, and then that of the connection below it: close_notify alone does not make
// every peer close (Netty's SslHandler waits for FIN).
func closeWrite(nc net.Conn, h writeCloser) error {
	err := h.CloseWrite()
	if upper, ok := nc.(interface{ NetConn() net.Conn }); ok {
		if below, ok := upper.NetConn().(writeCloser); ok {
			below.CloseWrite()
		}
	}
	return err
}

// awaitSent waits until the GOAWAY of a connection that is aborted is sent, at most
// abortTimeout. Without it discardInput could reach its bound, and the connection be
// closed, before a writer goroutine has sent the GOAWAY. Nothing is read meanwhile.
func (c *Conn) awaitSent() {
	c.mu.Lock()
	stopped, aborting := c.send.whenStopped(), c.lifetime.aborting()
	c.mu.Unlock()
	if stopped != nil && aborting {
		endsWithin(stopped)
	}
}

// aside calls what ends a connection. A plain socket does so at once; others (TLS
// sends an alert) may wait for the peer, which must not happen under c.mu. c.mu is held.
func (c *Conn) aside(end func() error) {
	c.stopPolling()
	switch c.nc.(type) {
	case *net.TCPConn, *net.UnixConn:
		end()
	default:
		go end()
	}
}
