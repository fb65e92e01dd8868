package h2

import (
	"os"
	"time"
)

// life is how far a connection has come. It only increases. Why the connection ends is in Conn.err, which is set before it is dead.
type life uint8

const (
	alive     life = iota
	announced      // server: the first of two GOAWAYs is sent
	draining       // no new streams; ends with the last one
	dead           // nothing is read or written any more
	over           // and OnReset was called for every stream that was left
	lives
)

// lifeEvent is what changes the life of a connection.
type lifeEvent uint8

const (
	shutdownCalled lifeEvent = iota // Shutdown, for the first time
	lastGoAwaySent                  // server: the second GOAWAY is queued
	goAwayReceived                  // a client may open no more streams
	socketClosed                    // reading has ended, and the socket is closed
	streamsFailed                   // and the streams that were left have ended
	lifeEvents
)

// lifeTable says where an event leads. What is not in it changes nothing.
var lifeTable = [2][lives][lifeEvents]life{
	client: {
		alive:     {shutdownCalled: draining, goAwayReceived: draining, socketClosed: dead},
		announced: {socketClosed: dead}, // a client does not get into this state
		draining:  {socketClosed: dead},
		dead:      {streamsFailed: over},
	},
	server: {
		alive:     {shutdownCalled: announced, socketClosed: dead},
		announced: {lastGoAwaySent: draining, socketClosed: dead},
		draining:  {socketClosed: dead},
		dead:      {streamsFailed: over},
	},
}

// become applies ev and reports whether it has changed the connection's life. c.mu is held.
func (c *Conn) become(ev lifeEvent) bool {
	to := lifeTable[c.side][c.life][ev]
	if to <= c.life { // not in the table
		return false
	}
	c.life = to
	return true
}

// bound is what bounds the time for which Run reads on while a connection ends.
type bound uint8

const (
	unbounded  bound = iota
	untilSent        // everything is to be sent: stuckTimeout after the peer has taken something last
	untilEnded       // everything is sent, the peer is to end its side: heardTimeout after it has sent or taken something last, closeTimeout in all
	untilAbort       // abortTimeout, whatever comes
)

const (
	// abortTimeout is how long a connection that is aborted may take to send its
	// GOAWAY.
	abortTimeout = 250 * time.Millisecond
	// stuckTimeout is how long a connection that ends in order waits for a peer that takes nothing of what is to be sent.
	stuckTimeout = 20 * time.Second
	// closeTimeout is how long it waits for the peer to close, once everything is sent.
	closeTimeout = 5 * time.Second
	// heardTimeout is how long it waits for a peer that sends nothing meanwhile. It is net/http's and grpc-go's.
	heardTimeout = time.Second
	// silentTimeout is how long it waits for one that has sent nothing for silentTime before.
	silentTimeout = 250 * time.Millisecond
)

// lifetime is the time that a connection has for its end; guarded by Conn.mu.
type lifetime struct {
	bound bound
	limit instant // when reading ends, or is looked at again
	last  instant // untilEnded: when it ends in any case
	heard instant // untilEnded: when something came last
	acked uint64  // noteMoved's
}

// ends reports whether the time for the connection's end is bounded.
func (l *lifetime) ends() bool { return l.bound != unbounded }

// waitsForPeer reports whether nothing is sent any more.
func (l *lifetime) waitsForPeer() bool { return l.bound >= untilEnded }

// noteHeard notes that the peer has sent something.
func (l *lifetime) noteHeard() {
	if l.bound == untilEnded {
		l.heard = now()
	}
}

// lookAgain has Run's read, or the wait for input of an idle connection, meet a deadline at t, unless the connection ends; zero: none.
// c.mu is held.
func (c *Conn) lookAgain(t time.Time) {
	if !c.lifetime.ends() {
		c.nc.SetReadDeadline(t)
	}
}

// limitReading bounds how long Run may still read; for the first time it is looked at after d. The error says that it cannot be
// bounded. c.mu is held.
func (c *Conn) limitReading(b bound, d time.Duration) error {
	c.lifetime.bound = b
	c.lifetime.limit = now() + instant(d)
	c.lifetime.last = now() + instant(closeTimeout)
	c.noteMoved()
	err := c.nc.SetReadDeadline(c.lifetime.limit.time())
	c.stopPolling()
	return err
}

// limitEnd bounds how long the connection may still read and write. c.mu is held.
func (c *Conn) limitEnd() {
	c.send.abort()
	c.lifetime.bound = untilAbort
	c.lifetime.limit = now() + instant(abortTimeout)
	c.nc.SetDeadline(c.lifetime.limit.time())
	c.stopPolling()
}

// onLimit is called when Run's read has met a deadline of a connection that ends. It returns nil if Run is to read on. c.mu is held.
func (c *Conn) onLimit() error {
	e, now := &c.lifetime, now()
	if now < e.limit {
		return nil // an earlier deadline was met
	}
	next, moved := now, c.noteMoved()
	switch {
	case e.bound == untilSent && moved:
		next += instant(stuckTimeout)
	case e.bound == untilEnded && moved:
		next += instant(heardTimeout)
	case e.bound == untilEnded && e.heard != 0:
		next = e.heard + instant(heardTimeout)
	}
	if e.bound == untilEnded {
		next = min(next, e.last)
	}
	if next <= now {
		return os.ErrDeadlineExceeded
	}
	e.limit = next
	c.nc.SetReadDeadline(next.time())
	return nil
}

// noteMoved reports whether the peer has taken some of what is sent since the last call, and has not taken all of it: it is slow
// and not gone. A peer's system takes something for a program that reads nothing, too, but not for long. c.mu is held.
func (c *Conn) noteMoved() bool {
	acked, others, ok := ackedBytes(c.nc)
	if !ok {
		acked = c.send.taken()
	}
	moved := acked > c.lifetime.acked && (others || c.send.sends())
	c.lifetime.acked = acked
	return moved
}
