package rpc

import (
	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/message"
)

// freeIn drops what has come and not been taken. c.mu is held.
func (c *serverCall) freeIn() {
	c.dropIn = true
	if !c.filling {
		c.in.Free()
	}
}

// land implements lander.
func (c *serverCall) land() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || c.inEnd || c.dropIn {
		return nil
	}
	o := &c.conn.srv.opts
	var habit *message.Habit
	if c.shape.method != nil {
		habit = &c.shape.method.habit
	}
	b := c.in.Land(o.pool, o.maxRecv, &c.conn.credit, habit)
	c.filling = len(b) > 0
	return b
}

// landed implements lander.
func (c *serverCall) landed(n int, e h2.Ending) {
	c.mu.Lock()
	c.filling = false
	if c.dropIn {
		c.in.Free()
		c.mu.Unlock()
		return
	}
	c.in.Landed(n)
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.arrived(n, e)
}

// unlanded implements lander.
func (c *serverCall) unlanded() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.filling = false
	if c.dropIn {
		c.in.Free()
	}
}
