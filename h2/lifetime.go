package h2

import "time"

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

// limitReading bounds how long Run may still read. The error says that it cannot. c.mu is held.
func (c *Conn) limitReading(d time.Duration) error {
	c.send.limit = time.Now().Add(d)
	err := c.nc.SetReadDeadline(c.send.limit)
	c.stopPolling()
	return err
}

// limitEnd bounds how long the connection may still read and write. c.mu is held.
func (c *Conn) limitEnd() {
	c.send.aborted = true
	c.send.limit = time.Now().Add(abortTimeout)
	c.nc.SetDeadline(c.send.limit)
	c.stopPolling()
}
