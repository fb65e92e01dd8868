package h2

import (
	"errors"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/tarn-go/tarn/wire"
)

// restAfter is how long nothing must have come on a connection without streams
// before it rests. Anything shorter than the time between a busy client's calls
// would cost those.
const restAfter = 500 * time.Millisecond

// errResting ends a loop because the connection rests; nobody else sees it.
var errResting = errors.New("h2: the connection rests")

// Start is Run on goroutines of its own: it does not wait, and what Run would
// return is passed to ended in the end. A connection that was started rests when
// nothing has come for half a second and no stream is open: what only a busy
// connection needs is dropped, and what waits for the peer is a new goroutine with
// the smallest of stacks, since one that has run deep keeps what it has grown to.
// Plain TCP and Unix connections and TLS over them do so, and what MayRest permits.
func (c *Conn) Start(ended func(error)) {
	c.onEnd = ended
	if wire.CanAwait(c.nc) {
		c.rests = true
	}
	go func() {
		c.begin()
		c.work()
	}()
}

// MayRest says, before Start, that the net.Conn survives a read deadline and has
// nothing to give at one unless its socket has: that it wraps TLS, say. It must be
// a syscall.Conn; otherwise, and on systems without wire.Await, MayRest does
// nothing.
func (c *Conn) MayRest() {
	if _, ok := c.nc.(syscall.Conn); ok {
		c.rests = wire.Awaits
	}
}

// work reads the connection until it rests or is over.
func (c *Conn) work() {
	err := c.loop()
	if err == errResting {
		c.in.r.Release()
		c.packed, c.in = c.in.dec.table.pack(), nil
		go c.rest()
		return
	}
	c.onEnd(c.teardown(err))
}

// rest waits for the peer with as little as possible in hand. What ends the wait
// is found again by who reads.
func (c *Conn) rest() {
	wire.Await(c.nc)
	go c.work()
}

// maxQuiet bounds Conn.quiet: it makes a minute of restAfter.
const maxQuiet = 7

// watch sets the deadline at which Run looks whether the connection may rest. A
// busy connection meets one each restAfter, one with quiet streams fewer and fewer;
// beyond that it costs nothing. There is none before the peer has spoken: TLS does
// not survive one amid its handshake. c.mu is held.
func (c *Conn) watch() {
	if c.rests && c.send.greeted && c.send.limit.IsZero() {
		c.nc.SetReadDeadline(time.Now().Add(c.cfg.restAfter << c.quiet))
	}
}

// endQuiet is called when the last stream has ended: soon the connection may be idle.
// c.mu is held.
func (c *Conn) endQuiet() {
	if c.quiet > 0 && c.err == nil {
		c.quiet = 0
		c.watch()
	}
}

// late is called when Run's read has met its deadline. nil: read on.
func (c *Conn) late() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if limit := c.send.limit; !limit.IsZero() {
		if time.Now().Before(limit) {
			return nil // that was an earlier one
		}
		return os.ErrDeadlineExceeded
	}
	in := c.in
	if in.between && !in.stirred && in.r.Buffered() == 0 && c.mayRest() {
		c.layDown()
		return errResting
	}
	if in.stirred || c.held == 0 {
		c.quiet = 0
	} else {
		c.quiet = min(c.quiet+1, maxQuiet)
	}
	in.stirred = false
	c.watch()
	return nil
}

// mayRest reports whether nothing is going on. c.mu is held.
func (c *Conn) mayRest() bool {
	s := &c.send
	if c.asked() {
		return false
	}
	return c.life == alive && c.err == nil && c.held == 0 && c.queued() == 0 && s.state == notWriting &&
		s.greeted && c.recv.unacked == 0 && len(s.openers) == 0 && len(c.pings.wait) == 0
}

// layDown drops what is made again when it is needed. c.mu is held.
func (c *Conn) layDown() {
	var wake time.Time // never, but for keepalive, whose timer is another thing to drop
	if c.pings.timer != nil {
		c.pings.timer.Stop()
		c.pings.timer = nil
		if c.cfg.Keepalive.WithoutCall == Permit {
			wake = c.silentAt()
		}
	}
	c.nc.SetReadDeadline(wake)
	c.setCurrent(nil)
	c.streams, c.free, c.nfree = nil, nil, 0
	c.dropWriter()
	c.send.w, c.send.out, c.send.spare, c.send.run = nil, nil, nil, nil
	c.enc.layDown()
}

// layDown keeps what the peer's table holds, and nothing that can be encoded
// again.
func (e *encoder) layDown() {
	e.table = slices.Clone(e.table)
	e.recall = nil
}
