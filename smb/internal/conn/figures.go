package conn

import (
	"sync/atomic"
	"time"
)

// Traffic is how many bytes connections have exchanged with servers, below encryption and with the frames' headers.
type Traffic struct{ Received, Sent atomic.Uint64 }

// Figures are what a connection is doing at one time.
type Figures struct {
	Age      time.Duration // since it was dialled
	InFlight int           // requests that the server has not answered
	Credits  int           // that the server has granted and no request uses
	Waiting  int           // calls that wait for credits
}

// Figures returns what the connection is doing.
func (c *Conn) Figures() Figures {
	f := Figures{Age: time.Since(c.begun)}
	c.ring.mu.Lock()
	f.InFlight = c.ring.count
	c.ring.mu.Unlock()
	c.credits.mu.Lock()
	defer c.credits.mu.Unlock()
	f.Credits = c.credits.avail
	for cl := c.credits.waiting.head; cl != nil; cl = cl.wait.next {
		f.Waiting++
	}
	return f
}
