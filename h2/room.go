package h2

import "time"

// roomWait bounds how long Run waits for the room that a handler of an ended stream takes. A peer that resets a stream may
// open the next one at once, before the handler has run and returned.
const roomWait = 100 * time.Millisecond

// awaitRoom is called before stream id is accepted. If the peer may open it, but handlers of streams that have ended still count
// against MaxStreams, it waits up to roomWait for one of them to return. If none returns, the connection is crowded, and awaitRoom
// does not wait again until one has: handlers that ignore the end of their streams delay the other frames once. What is queued is sent
// before the wait. c.mu is held, and given up during the wait.
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
