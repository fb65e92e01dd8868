package conn

import (
	"net"
	"os"
	"time"
)

// interrupts are the reasons why the receiver's read is interrupted, by a deadline that has passed; guarded by ring.mu.
type interrupts struct {
	reclaim bool // the caller whose READ is received wants its slice back
	look    bool // see Conn.look
}

// longAgo is a deadline that has passed.
func longAgo() time.Time { return time.Unix(1, 0) }

// look has the receiver take what has arrived of a frame, and wake for each piece of the rest: it is not woken before lowWater bytes
// have arrived otherwise. On other connections than those of SetLowWater it is, and a deadline may break them.
func (c *Conn) look() {
	if _, ok := c.nc.(*net.TCPConn); !ok {
		return
	}
	c.ring.mu.Lock()
	defer c.ring.mu.Unlock()
	c.interrupts.look = true
	c.nc.SetReadDeadline(longAgo())
}

// interrupted is called by the receiver when its read has met a deadline. nil: it goes on.
func (c *Conn) interrupted() error {
	c.ring.mu.Lock()
	defer c.ring.mu.Unlock()
	look := c.interrupts.look
	c.interrupts.look = false
	if c.interrupts.reclaim || !look {
		return os.ErrDeadlineExceeded
	}
	c.rd.SetLowWater(0) // until the next frame
	c.nc.SetReadDeadline(time.Time{})
	return nil
}
