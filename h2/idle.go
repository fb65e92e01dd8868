package h2

import (
	"crypto/tls"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/tarn-go/tarn/wire"
)

// A connection on which nothing comes rests. What only a busy connection needs is dropped then. On Linux the process's poller waits
// for the peer; elsewhere, and where the poller cannot, a goroutine with the smallest stack does.
//
//	rest        streams  nothing has come for       is dropped                                     ends with
//	notResting  any      -                          -                                              a deadline (onDeadline)
//	quiet       some     two deadlines, 1.5-2.5 s   what reads, decodes and writes, spare streams  input, or the last stream's end
//	idle        none     one, 0.5-1 s               these, the set of streams, keepalive's timer   input, or the next keepalive PING
//
// A connection that keeps the priority of a stream that the peer has yet to open does not rest. On one that does, streams are opened,
// written to, reset and ended as on others: only reading is stopped.

// errIdle ends a loop because the connection rests. It is not returned to users.
var errIdle = errors.New("h2: the connection is idle")

// AllowIdle permits the connection to become idle or quiet (see [Conn.Start]) where Start does not know that it can: the caller states
// that the net.Conn can be read again after a read deadline, and that it holds no input when its socket has
// none, as is true of a wrapper of a TLS connection. It must be called before Start. On a net.Conn that is
// no syscall.Conn, and on systems without wire.Await, it has no effect.
func (c *Conn) AllowIdle() {
	if _, ok := c.nc.(syscall.Conn); ok {
		c.mayIdle = wire.Awaits
	}
}

// pollIdle has the process's poller wait until there is input, which takes no goroutine. It reports false where that
// is not possible, for a connection that is about to end, and for one whose last stream has ended since it became quiet.
func (c *Conn) pollIdle(until time.Time) bool {
	nc := c.nc
	if t, ok := nc.(*tls.Conn); ok {
		nc = t.NetConn()
	}
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.lifetime.is(alive) || c.rest == notResting {
		return false
	}
	c.polled, ok = c.cfg.poller.Add(raw, until, (*polled)(c))
	return ok
}

// polled is a Conn whose input the poller waits for.
type polled Conn

// Ready reads the connection again.
func (p *polled) Ready() { go (*Conn)(p).work() }

// stopPolling has a goroutine wait for input in place of the poller, which notices neither a read deadline nor that
// the connection is closed. It is called when one of these ends the connection. c.mu is held.
func (c *Conn) stopPolling() {
	if c.polled != 0 && c.cfg.poller.Remove(c.polled) {
		go c.waitIdle()
	}
	c.polled = 0
}

// waitIdle waits until there is input or the connection fails, which the next read
// finds.
func (c *Conn) waitIdle() {
	wire.Await(c.nc)
	go c.work()
}

// watch sets the deadline at which Run checks whether the connection may rest: after
// idleAfter on a busy connection, later each time on one on which nothing comes and that may not. None is
// set before the peer's SETTINGS: a deadline during its handshake ends a TLS
// connection for good. c.mu is held.
func (c *Conn) watch() {
	if c.mayIdle && c.peer.greeted {
		c.lookAgain(time.Now().Add(c.cfg.idleAfter << c.idleBackoff))
	}
}

// awaitIdleness is called when the last stream has ended: soon the connection may be idle. If it is quiet, it is read again until it is.
// c.mu is held.
func (c *Conn) awaitIdleness() {
	if c.rest == notResting && c.idleBackoff == 0 {
		return
	}
	c.rest, c.idleBackoff = notResting, 0
	if c.polled != 0 && c.cfg.poller.Remove(c.polled) {
		c.polled = 0
		go c.work()
		return
	}
	c.watch() // a goroutine reads, or waits for input, or is about to
}

// onDeadline is called when Run's read has met its deadline. It returns nil if Run is
// to read on.
func (c *Conn) onDeadline() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lifetime.reached(closing) {
		return c.onLimit()
	}
	if !c.mayIdle {
		return os.ErrDeadlineExceeded
	}
	in := c.in
	// Priorities of streams that the peer has yet to open are kept, for which a connection that rests has no place.
	early := len(in.early) > 0
	if in.between && !in.active && !early && in.r.Buffered() == 0 {
		if c.rest = c.mayRest(); c.rest != notResting {
			c.trim()
			return errIdle
		}
	}
	if in.active || c.inUse == 0 && !early {
		c.idleBackoff = 0
	} else {
		c.idleBackoff = min(c.idleBackoff+1, maxIdleBackoff)
	}
	in.active = false
	c.watch()
	return nil
}

// mayRest returns how the connection, on which nothing has come since the last deadline, can rest. c.mu is held.
func (c *Conn) mayRest() rest {
	switch {
	case !c.lifetime.is(alive) || !c.peer.greeted || c.send.queued() > 0 || !c.send.inactive():
		return notResting
	case c.inUse > 0 && c.idleBackoff > 0:
		return quiet
	case c.canIdle():
		return idle
	}
	return notResting
}

// canIdle reports whether nothing is under way on a connection that sends nothing. c.mu is held.
func (c *Conn) canIdle() bool {
	return !c.lifetime.awaits() && c.inUse == 0 && c.inflow.settled() && len(c.openers) == 0 && len(c.pings.wait) == 0
}

// trim lets go what a connection that rests makes again when it is needed. c.mu is held.
func (c *Conn) trim() {
	c.in.until = time.Time{}
	if c.rest == idle {
		c.in.until = c.idlesUntil()
		c.streams, c.ready = nil, nil
	}
	c.lookAgain(c.in.until)
	c.setCurrent(nil)
	c.free, c.nfree = nil, 0
	c.send.endParked()
	c.send.trim()
	c.enc.Trim()
}
