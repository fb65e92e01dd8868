package conn

import (
	"context"
	"sync"
)

// detached are requests with Call.Detached set whose callers have returned: those that wait for credits, and those that are to be sent
// again because the session had expired; and acknowledgements of breaks. One goroutine, which
// runs while there are any, sends them in order. There are no more of them than files and trees were open, and maxDetached
// acknowledgements. When the connection ends, each is released.
type detached struct {
	mu      sync.Mutex
	unsent  []*Call
	running bool
}

// maxDetached is how many detached requests may be waiting when a break is to be acknowledged.
const maxDetached = 16 << 10

// waiting is how many requests are to be sent.
func (d *detached) waiting() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.unsent)
}

// detach takes ownership of cl, a call that is not registered, and sends its request later.
func (c *Conn) detach(cl *Call) {
	d := &c.detached
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unsent = append(d.unsent, cl)
	if !d.running {
		d.running = true
		c.work.run(c.sendUnsent)
	}
}

// next takes the first request out; nil, after which the goroutine that asks must end, when there is none.
func (d *detached) next() *Call {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.unsent) == 0 {
		d.unsent, d.running = nil, false
		return nil
	}
	cl := d.unsent[0]
	d.unsent[0], d.unsent = nil, d.unsent[1:]
	return cl
}

// sendUnsent sends the detached requests. Nothing waits for their replies.
func (c *Conn) sendUnsent() {
	for cl := c.detached.next(); cl != nil; cl = c.detached.next() {
		// The end of the connection ends the wait; start releases the call then.
		if c.start(context.Background(), cl, cl.req, cl.least) == nil {
			cl.disregard()
		}
	}
}

// sendAgain takes ownership of cl, a detached call that was refused because the session had expired and whose caller has returned.
// renew authenticates the user again. If it fails, or if the connection ends before, cl is released: the server closes what is open
// in a session that has ended.
func (c *Conn) sendAgain(cl *Call, renew func(context.Context) error) {
	c.work.run(func() {
		if renew(context.Background()) != nil {
			cl.Release()
			return
		}
		cl.rewind()
		c.detach(cl)
	})
}

// detachEncoded takes ownership of cl, a registered call, and of f, its frame, which waits for the socket. It is a function of its own
// so that f of every other call stays on the stack.
func (c *Conn) detachEncoded(cl *Call, f frame) {
	c.work.run(func() { c.writeDetached(f) })
	cl.disregard()
}
