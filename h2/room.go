package h2

import "time"

// roomWait bounds how long Run waits for the room that a handler of an ended stream takes. A peer that resets a stream may
// open the next one at once, before the handler has run and returned.
const roomWait = 100 * time.Millisecond

// awaitRoom waits until a handler returns, if handlers of streams that have ended take the room of stream id, which the peer
// may open. After it has waited in vain it waits no more before a handler has returned: those that do not heed the end of
// their streams hold up the others' frames once. What was queued is sent before it waits. c.mu is held, and given up meanwhile.
func (c *Conn) awaitRoom(id uint32) {
	if c.opened < c.cfg.MaxStreams || c.side == client || id <= c.lastID || c.life >= draining {
		return
	}
	if c.streams.len() >= c.cfg.MaxStreams || c.recv.crowded {
		return
	}
	timeout := time.NewTimer(roomWait)
	defer timeout.Stop()
	for c.opened >= c.cfg.MaxStreams && !c.recv.crowded {
		woken := c.starting.arm()
		c.mu.Unlock()
		c.pauseInFrame()
		select {
		case <-woken:
			c.lock()
		case <-timeout.C:
			c.lock()
			c.recv.crowded = c.opened >= c.cfg.MaxStreams
		}
	}
}
