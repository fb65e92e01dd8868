package h2

import (
	"time"
)

// readDelay is how long a moderated read waits when that many streams are open.
func readDelay(streams int) time.Duration {
	return min(max(time.Duration(streams)*streamDelay, minDelay), maxDelay)
}

// moderate waits before Run reads again, if many streams are open and reads follow each other quickly and bring few
// frames each; see Config.ReadModeration. No received frame waits meanwhile: it is called
// when all of them have been delivered, and what the callbacks queued has been sent. What
// goroutines that the callbacks woke have queued is sent here, in one system call.
func (c *Conn) moderate(streams int) {
	if streams < moderateFrom {
		c.in.r.SetBusyLowWater(0)
		return
	}
	now := time.Now()
	wait := moderated(now.Sub(c.in.paused), c.in.frames)
	c.in.frames = 0
	if c.in.paused = now; !wait {
		c.in.r.SetBusyLowWater(0)
		return
	}
	c.in.r.SetBusyLowWater(moderateBytes)
	c.mu.Lock()
	c.send.flush(flushTogether)
	c.mu.Unlock()
	sleep(readDelay(streams))
	c.in.paused = time.Now()
}

// moderated reports whether the next read waits, when the last one brought frames and the one
// before it was made that long ago.
func moderated(since time.Duration, frames int) bool { return since < quickRead && frames < goodRead }
