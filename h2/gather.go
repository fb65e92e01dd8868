package h2

import (
	"runtime"
	"time"
)

const (
	// gatherFrom is how many streams must be held for a caller to expect frames of
	// others.
	gatherFrom = 2
	// maxYields is how often the goroutine that is to write yields, as long as each
	// time another one queues something.
	maxYields = 4
	// goodBatch is how many bytes are worth a system call without waiting for more.
	goodBatch = 16 << 10
	// fewReplies is up to how many bytes of replies, such as the answer to a PING, wait in a client's reading
	// goroutine for the requests of the callers that its callbacks have woken.
	fewReplies = 64
	// clientYield and serverYield are how many frames the reading goroutine delivers without a pause before it
	// yields. A request is two frames and a response three, and a server's workers are fewer than a client's callers:
	// servers that yielded more often took more processor time (docs/performance.md).
	clientYield, serverYield = 32, 64
	// maxYield is how long the goroutine that is to write yields in all: where processors are scarce, each time may
	// take long.
	maxYield = 50 * time.Microsecond
)

// gather lets other callers queue their frames before this one kicks, so that they
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

// kickReplies is kick for what the frames just read made a client queue, such as the answer to a PING, of which
// grpc-go's servers send one with most batches: it leaves together with the next requests of the callers that the
// callbacks for these frames have woken. Callers that a BatchHandler wakes come later. c.mu is held, but not
// throughout.
func (c *Conn) kickReplies() {
	if c.queued() > 0 {
		c.gather()
	}
	c.kick() // while a caller gathers, that one sends
}

// yieldToWoken is called between two frames. It lets the goroutines that callbacks have woken run when many frames
// were read together: a client's callers send their next requests and a server's handlers their responses, and the other end
// works on these, while the rest of the frames are delivered. Otherwise all callers would wait for the last of the
// frames, then the server for all requests, and the slowest calls would take longer. While no
// header of a further frame is buffered it does not yield, since Run pauses next and sends what is queued then.
// Goroutines that a BatchHandler wakes come later.
func (c *Conn) yieldToWoken() {
	after := clientYield
	if c.side == server {
		after = serverYield
	}
	if c.in.run >= after && c.batch == nil && c.in.r.Buffered() >= frameHeaderLen {
		c.in.run = 0
		runtime.Gosched()
	}
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
