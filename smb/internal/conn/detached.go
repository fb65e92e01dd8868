package conn

import (
	"context"
	"sync"
)

// detached are requests with Call.Detached set whose callers have returned while they waited for credits. One goroutine, which
// runs while there are any, sends them in order. There are no more of them than files and trees were open. When the connection
// ends, each is released.
type detached struct {
	mu      sync.Mutex
	unsent  []unsent
	running bool
}

type unsent struct {
	cl    *Call
	req   Request
	least protection
}

// detach takes ownership of cl, a call that is not registered, and sends req later.
func (c *Conn) detach(cl *Call, req Request, least protection) {
	d := &c.detached
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unsent = append(d.unsent, unsent{cl, req, least})
	if !d.running {
		d.running = true
		c.work.run(c.sendUnsent)
	}
}

// next takes the first request out; ok is false, and the goroutine that asks must end, when there is none.
func (d *detached) next() (u unsent, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.unsent) == 0 {
		d.unsent, d.running = nil, false
		return unsent{}, false
	}
	u, d.unsent[0] = d.unsent[0], unsent{}
	d.unsent = d.unsent[1:]
	return u, true
}

// sendUnsent sends the detached requests and ignores their replies.
func (c *Conn) sendUnsent() {
	for {
		u, ok := c.detached.next()
		if !ok {
			return
		}
		// The end of the connection ends the wait; start releases the call then.
		if c.start(context.Background(), u.cl, u.req, u.least) == nil {
			u.cl.disregard()
		}
	}
}

// detachEncoded takes ownership of cl, a registered call, and of f, its frame, which waits for the socket. It is a function of its own
// so that f of every other call stays on the stack.
func (c *Conn) detachEncoded(cl *Call, f frame) {
	c.work.run(func() { c.writeDetached(f) })
	cl.disregard()
}
