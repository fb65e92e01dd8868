package smb

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/smb/internal/directtcp"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/wire"
)

// replyRoom is the longest reply that needs no asking: an error with its data, a
// NEGOTIATE or SESSION_SETUP with a token, a CREATE with its contexts.
const replyRoom = 66 << 10

// Receive buffers hold the heads of replies, since long data goes where it belongs.
const (
	idleRead = 2 << 10
	mostRead = 16 << 10
)

// lowWater is how many bytes of long data to sleep for. Measured against Samba on the
// same machine: more leaves the sender waiting for room, less wakes too often.
const lowWater = 256 << 10

// conn is one connection with one session on it. One goroutine receives; callers send
// for themselves, one after the other, and verify and decrypt what is theirs.
//
//	caller:   credits -> encode -> sign or seal -> register -> send -> wait
//	receiver: length -> header -> find the call -> place or buffer -> wake it
type conn struct {
	nc    net.Conn
	cfg   *Dialer
	pool  *tarn.Pool
	rd    *wire.Reader
	begun time.Time
	guid  [16]byte // of the client: leases and durable handles belong to it

	ring    ring
	credits credits
	send    sender
	helpers chan tarn.Buffer // encrypted frames for whoever waits to open
	in      inbound
	largest atomic.Int64  // bytes of the longest reply asked for so far
	heard   atomic.Int64  // when the last frame came, nanoseconds since begun
	dead    chan struct{} // closed when the connection has ended
	work    group         // the receiver and what finishes after its caller has gone
	closed  atomic.Bool

	// Fixed once the dialogue of set-up is over.
	agreed    agreement
	sec       atomic.Pointer[security]
	validated atomic.Bool // VALIDATE_NEGOTIATE_INFO has been answered well
	onBreak   func(c *conn, msg []byte) error
}

// newConn starts receiving on nc, which becomes the conn's.
func newConn(nc net.Conn, cfg *Dialer, guid [16]byte) *conn {
	c := &conn{
		nc: nc, cfg: cfg, pool: cfg.Pool, guid: guid,
		rd:      wire.NewReader(nc, cfg.Pool),
		begun:   time.Now(),
		helpers: make(chan tarn.Buffer),
		dead:    make(chan struct{}),
	}
	c.credits.avail = 1 // for NEGOTIATE (3.2.4.1.2)
	c.credits.target = cfg.Limits.Credits
	c.largest.Store(replyRoom)
	c.send.init(nc)
	c.ring.turn.init(nc)
	c.rd.SetSizes(idleRead, mostRead)
	c.rd.SetLowWater(lowWater)
	c.work.run(c.receive)
	return c
}

// alive reports whether requests may still be sent.
func (c *conn) alive() bool { return !c.closed.Load() }

// fail ends the connection: every call and everyone who waits gets err, which
// matches one of ErrConnLost, ErrProtocol and ErrSecurity. Only the first error counts.
func (c *conn) fail(err error) {
	c.ring.mu.Lock()
	if c.ring.err != nil {
		c.ring.mu.Unlock()
		return
	}
	// Together: whoever finds the connection closed finds the reason.
	c.ring.err = err
	c.closed.Store(true)
	c.ring.mu.Unlock()
	// The receiver comes out of its read, and ends the call it was placing data for:
	// until then that slice is not given back.
	c.nc.Close()
	c.credits.fail(err)
	c.ring.mu.Lock()
	// The ring is empty afterwards: a call that is over belongs to its caller alone.
	c.ring.clear(func(cl *call) {
		if cl.state == callPending {
			cl.state = callDone
			cl.err = err
			cl.done <- struct{}{}
		}
	})
	c.ring.turn.delegate() // to end the receiver
	c.ring.mu.Unlock()
	close(c.dead)
}

// end is fail, returning when no goroutine of the connection is left.
func (c *conn) end(err error) {
	c.fail(lost(err))
	c.work.wait()
}

// err is why the connection ended, nil while it has not.
func (c *conn) err() error {
	c.ring.mu.Lock()
	defer c.ring.mu.Unlock()
	return c.ring.err
}

// lost gives a network error its class; one that has a class keeps it.
func lost(err error) error {
	if err == nil {
		return nil
	}
	var classed *connError
	switch {
	case errors.As(err, &classed):
		return err
	case errors.Is(err, proto.ErrMalformed), errors.Is(err, directtcp.ErrHeader):
		return &connError{ErrProtocol, err}
	case err == io.EOF, err == io.ErrUnexpectedEOF:
		return &connError{ErrConnLost, errors.New("the server hung up")}
	}
	return &connError{ErrConnLost, err}
}

// newCall takes an idle slot.
func (c *conn) newCall(cmd proto.Command, tree uint32) *call {
	cl := c.ring.acquire(c)
	cl.cmd, cl.tree = cmd, tree
	return cl
}

// release recycles a slot whose reply is not needed any more.
func (cl *call) release() { cl.c.ring.release(cl) }

// charged is the number of credits that moving n bytes costs (3.2.4.1.5).
func (c *conn) charged(n int) int {
	if c.agreed.caps&proto.CapLargeMTU == 0 || n <= 0 {
		return 1
	}
	return (n-1)/65536 + 1
}
