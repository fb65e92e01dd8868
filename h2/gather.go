package h2

import (
	"runtime"
	"time"
)

// gather lets other callers queue their frames before this one flushes, so that they
// leave together. Meanwhile no other caller sends: with 64 callers this takes a tenth of
// the writes and a third of the time. It reports whether it has yielded. c.mu is held,
// and given up meanwhile.
func (c *Conn) gather() (yielded bool) {
	s := &c.send
	if s.state != notWriting || c.held < gatherFrom || s.w != nil && !s.w.CanTry() {
		return false // the writer goroutine gathers where nothing can be tried
	}
	s.state = gathering
	c.letOthersQueue()
	if s.state == gathering {
		s.state = notWriting
	}
	return true
}

// letOthersQueue yields while others queue frames. c.mu is held, and given up
// meanwhile.
func (c *Conn) letOthersQueue() {
	if c.held < gatherFrom {
		return
	}
	start := time.Now()
	for range maxYields {
		before := c.queued()
		c.mu.Unlock()
		runtime.Gosched()
		c.mu.Lock()
		if now := c.queued(); now == before || now >= goodBatch || time.Since(start) > maxYield {
			return
		}
	}
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
