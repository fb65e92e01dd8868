package conn

import (
	"net"
	"os"
	"time"
)

// interrupts are the reasons why the receiver's read is interrupted, by a deadline that has passed; guarded by ring.mu.
type interrupts struct {
	reclaim bool // the caller whose READ is received takes its slice back
	partial bool // see Conn.receivePartial
}

// longAgo is a deadline that has passed.
func longAgo() time.Time { return time.Unix(1, 0) }

// receivePartial makes the receiver read what has arrived of a frame, and then each piece of the rest as it arrives: otherwise it is woken
// only when lowWater bytes have arrived. Connections without a low-water mark (see SetLowWater) are left alone: their receiver is woken for
// each piece anyway, and a deadline may break them.
func (c *Conn) receivePartial() {
	if _, ok := c.nc.(*net.TCPConn); !ok {
		return
	}
	c.ring.mu.Lock()
	defer c.ring.mu.Unlock()
	c.interrupts.partial = true
	c.nc.SetReadDeadline(longAgo())
}

// interrupted is called by the receiver when its read has met a deadline. If it returns nil the receiver reads on.
func (c *Conn) interrupted() error {
	c.ring.mu.Lock()
	defer c.ring.mu.Unlock()
	partial := c.interrupts.partial
	c.interrupts.partial = false
	if c.interrupts.reclaim || !partial {
		return os.ErrDeadlineExceeded
	}
	c.rd.SetLowWater(0) // until the next frame
	c.nc.SetReadDeadline(time.Time{})
	return nil
}
