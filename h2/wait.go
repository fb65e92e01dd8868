package h2

import (
	"context"
	"runtime"
	"time"
)

const (
	// yieldAbove is how many streams must be live for a caller to expect company.
	yieldAbove = 2
	// maxYields is how often a caller makes way, as long as each time somebody
	// queues something.
	maxYields = 4
	// goodBatch is how many bytes are worth a system call without waiting for more.
	goodBatch = 16 << 10
	// maxYield is how long a caller makes way before it does so no more: where
	// processors are scarce, each time may take long.
	maxYield = 50 * time.Microsecond
)

// yield lets other callers queue their frames before this one sends, so that
// they leave together. While it does, nobody else sends either: with 64 callers
// that makes a tenth of the writes and a third of the time. c.mu is held, and
// given up meanwhile.
func (c *Conn) yield() {
	if c.send.busy || c.send.yielding || c.held < yieldAbove {
		return
	}
	c.send.yielding = true
	start := time.Now()
	for range maxYields {
		before := c.queued()
		c.mu.Unlock()
		runtime.Gosched()
		c.mu.Lock()
		if now := c.queued(); now == before || now >= goodBatch || time.Since(start) > maxYield {
			break
		}
	}
	c.send.yielding = false
}

// wait sends what is queued and then waits until s may queue some of its left
// bytes of DATA. c.mu is held, but not throughout.
func (c *Conn) wait(ctx context.Context, s *Stream, left int, at place) error {
	if s.wake == nil {
		s.wake = make(chan struct{}, 1)
	}
	c.addWaiter(s, left, at)
	c.wakeWaiters()
	c.flush(mayBlock)
	var err error
	if !s.is(closed) && s.waiting {
		var cancelled <-chan struct{}
		if ctx != nil {
			cancelled = ctx.Done()
		}
		c.mu.Unlock()
		select {
		case <-s.wake:
		case <-cancelled:
			err = ctx.Err()
		}
		c.mu.Lock()
	}
	c.dropWaiter(s)
	c.redeem(s)
	if s.is(closed) {
		err = s.err
	}
	if err != nil {
		c.wakeWaiters() // what was promised goes to the next
	}
	return err
}

// wakeOpeners lets the next Open that waits for a stream look again. c.mu is held.
func (c *Conn) wakeOpeners() {
	for n := c.send.maxStreams - c.opened; n > 0 && len(c.send.openers) > 0; n-- {
		close(c.send.openers[0])
		c.send.openers[0] = nil
		c.send.openers = c.send.openers[1:]
	}
}

// wakeAllOpeners makes every waiting Open fail. c.mu is held.
func (c *Conn) wakeAllOpeners() {
	for _, w := range c.send.openers {
		close(w)
	}
	c.send.openers = nil
}
