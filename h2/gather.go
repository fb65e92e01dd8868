package h2

import (
	"runtime"
	"time"
)

// together says how a caller flushes that may wait for others' frames: with 64 callers gathering takes a tenth of the writes and a third of
// the time. c.mu is held.
func (c *Conn) together() flushMode {
	if c.inUse < gatherFrom {
		return flushInTurn
	}
	return flushTogether
}

// yields counts how often the goroutine that is to write has let others run.
type yields struct {
	n      int
	queued int // what was queued before the last
	begun  time.Time
}

// next counts another yield, and reports false if that is not worth while when queued bytes are queued.
func (y *yields) next(queued int) bool {
	switch {
	case y.n == 0:
		y.begun = time.Now()
	case y.n == maxYields || queued == y.queued || queued >= goodBatch || time.Since(y.begun) > maxYield:
		return false
	}
	y.n++
	y.queued = queued
	return true
}

// letWokenRun is called between two frames. When many were read together, it lets the goroutines run that their callbacks have woken:
// a client's callers send their next requests and a server's handlers their responses, and the other end works on these, while the
// rest is delivered. docs/design/h2.md has what it is worth. When no further frame has come, Run pauses next, and sends what is queued.
// The goroutines that a BatchHandler wakes come later.
func (c *Conn) letWokenRun() {
	if c.in.frames%yieldAfter == yieldAfter-1 && c.batch == nil && c.in.r.Buffered() >= frameHeaderLen {
		runtime.Gosched()
	}
}
