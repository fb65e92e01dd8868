// Package conn is one SMB connection with one session on it: sending, receiving, credits, signing,
// encryption, negotiation and log-in. It handles requests, replies and trees; files, listings and copies are
// above it, in package smb.
//
// Open makes a Conn. Connect returns a Tree, whose methods send requests: RoundTrip sends one, Compound
// several in one frame, StartRead and StartWrite those that a pipeline keeps in flight.
//
//	caller:   credits -> encode -> sign or encrypt -> register -> send -> wait
//	receiver: length -> header -> find the call -> place or buffer -> wake it
package conn

import (
	"context"
	"math"
	"net"
	"sync/atomic"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/wire"
)

// replyRoom is the length of the longest reply that is accepted without a raised limit: an error with its
// data, a NEGOTIATE or SESSION_SETUP with a token, a CREATE with its contexts.
const replyRoom = 66 << 10

// Receive buffers hold the headers of replies; long data is received at its destination.
const (
	idleReadBuffer = 2 << 10
	maxReadBuffer  = 16 << 10
)

// lowWater is the low-water mark of the socket while long data is received, in bytes: the length of the longest request, so
// that the receiver wakes once for each. Measured against Samba on the same machine: with 256 KiB, READs of 1 MiB take a
// tenth longer, and more processor time of both sides.
const lowWater = 1 << 20

// Conn is one connection with one session on it. One goroutine receives; callers write their own requests,
// one at a time, and verify and decrypt their own replies. It is safe for concurrent use.
type Conn struct {
	nc    net.Conn
	cfg   *Config
	pool  *tarn.Pool
	rd    *wire.Reader
	begun time.Time

	ring         ring
	credits      credits
	send         sender
	detached     detached
	sealedFrames chan tarn.Buffer // encrypted frames, for a waiting caller to decrypt
	frameLimit   atomic.Int64     // length of the longest reply requested so far, in bytes
	lastReceived atomic.Int64     // time of the last bytes, in nanoseconds since begun
	arriving     atomic.Bool      // a frame longer than longFrame is being received
	dead         chan struct{}    // closed when the connection has ended
	work         group            // the receiver, and calls that finish after their caller has returned
	closed       atomic.Bool
	heapGrown    atomic.Bool // growHeap has been done
	lostChange   bool        // set before dead is closed: see LostChange
	interrupts   interrupts

	// Fixed once Open has returned.
	agreed    agreement
	sec       atomic.Pointer[security]
	validated atomic.Bool // VALIDATE_NEGOTIATE_INFO has succeeded

	reauth reauthentication
}

// Open negotiates and logs in on nc. It takes ownership of nc: it is closed with the Conn, or when Open
// fails. previous is the id of the session that this one replaces, which the server then ends at once; zero:
// none.
func Open(ctx context.Context, nc net.Conn, cfg *Config, previous uint64) (*Conn, error) {
	c := newConn(nc, cfg)
	err := c.negotiate(ctx)
	if err == nil {
		err = c.login(ctx, previous)
	}
	if err != nil {
		c.Close(err)
		return nil, err
	}
	if cfg.KeepAlive > 0 {
		c.work.run(func() { c.keepAlive(cfg.KeepAlive) })
	}
	if cfg.RequestTimeout > 0 {
		c.work.run(func() { c.watchRequests(cfg.RequestTimeout) })
	}
	return c, nil
}

// newConn starts receiving on nc.
func newConn(nc net.Conn, cfg *Config) *Conn {
	c := &Conn{
		nc: nc, cfg: cfg, pool: cfg.Pool,
		rd:           wire.NewReader(nc, cfg.Pool),
		begun:        time.Now(),
		sealedFrames: make(chan tarn.Buffer),
		dead:         make(chan struct{}),
	}
	c.credits.avail = 1 // for NEGOTIATE (3.2.4.1.2)
	c.credits.target = cfg.Credits
	c.credits.starved = c.fail
	c.frameLimit.Store(replyRoom)
	c.ring.answeredRound = math.MaxUint64
	c.send.init(nc, &cfg.Traffic.Sent)
	c.rd.SetSizes(idleReadBuffer, maxReadBuffer)
	c.rd.OnRead(c.received)
	c.rd.OnDeadline(c.interrupted)
	c.work.run(c.receive)
	return c
}

// Terms returns the negotiated parameters. They must not be changed.
func (c *Conn) Terms() *Terms { return &c.agreed.Terms }

// Alive reports whether requests may still be sent.
func (c *Conn) Alive() bool { return !c.closed.Load() }

// Err is the reason why the connection ended, nil while it has not. It matches one of ErrLost, ErrProtocol
// and ErrSecurity.
func (c *Conn) Err() error {
	c.ring.mu.Lock()
	defer c.ring.mu.Unlock()
	return c.ring.err
}

// Close ends the connection with err as the reason, without a LOGOFF, and waits until all goroutines of the
// connection have ended.
func (c *Conn) Close(err error) {
	c.fail(classified(err))
	c.Wait()
}

// Wait returns when all goroutines of a connection that has ended have returned.
func (c *Conn) Wait() { c.work.wait() }

// fail ends the connection: every registered call and every waiting caller gets err, which matches one of
// ErrLost, ErrProtocol and ErrSecurity. Only the first error is kept.
func (c *Conn) fail(err error) {
	c.ring.mu.Lock()
	if c.ring.err != nil {
		c.ring.mu.Unlock()
		return
	}
	// Both under the lock, so that a caller that sees the connection closed also sees the reason.
	c.ring.err = err
	c.closed.Store(true)
	c.ring.mu.Unlock()
	// The receiver's read returns, and it finishes the call whose data it was receiving: until then that
	// slice is not returned to its caller.
	c.nc.Close()
	c.credits.fail(err)
	c.ring.mu.Lock()
	// The ring is empty afterwards: a call that is done belongs to its caller alone.
	c.ring.clear(func(cl *Call) {
		c.lostChange = c.lostChange || cl.Effect != nil && cl.Effect.Lasts()
		cl.settle()
		if cl.state == callPending {
			cl.state = callDone
			cl.err = err
			if cl.overdue() {
				cl.err = errUnanswered
			}
			cl.done <- struct{}{}
		}
	})
	c.ring.mu.Unlock()
	close(c.dead)
}

// malformed ends the connection because a decoder refused a reply.
func (c *Conn) malformed(err error) error {
	err = classified(err)
	c.fail(err)
	return err
}

// newCall takes an idle slot.
func (c *Conn) newCall(cmd proto.Command, tree uint32) *Call {
	cl := c.ring.acquire(c)
	cl.cmd, cl.tree = cmd, tree
	return cl
}

// charged is the number of credits that moving n bytes costs (3.2.4.1.5).
func (c *Conn) charged(n int) int {
	if c.agreed.Capabilities&proto.CapLargeMTU == 0 || n <= 0 {
		return 1
	}
	return (n-1)/65536 + 1
}

// Logoff ends the session on the server at once, which would otherwise keep it until its timeout.
func (c *Conn) Logoff(ctx context.Context) error {
	return c.do(ctx, c.newCall(proto.CommandLogoff, 0), simple{}, inClear)
}
