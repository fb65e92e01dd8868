// Package conn is one SMB connection with one session on it: sending, receiving, credits,
// signing, encryption, negotiation and log-in. It knows requests and replies, and trees to send
// them on; what files, listings and copies are made of lies above it, in package smb.
//
// Open makes a Conn. Connect gives a Tree, and a Tree's methods send: RoundTrip one request,
// Compound several in one frame, StartRead and StartWrite what a pipeline keeps in flight.
//
//	caller:   credits -> encode -> sign or encrypt -> register -> send -> wait
//	receiver: length -> header -> find the call -> place or buffer -> wake it
package conn

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/wire"
)

// replyRoom is the longest reply that needs no asking: an error with its data, a
// NEGOTIATE or SESSION_SETUP with a token, a CREATE with its contexts.
const replyRoom = 66 << 10

// Receive buffers hold the heads of replies, since long data goes where it belongs.
const (
	idleReadBuffer = 2 << 10
	maxReadBuffer  = 16 << 10
)

// lowWater is how many bytes of long data to sleep for. Measured against Samba on the
// same machine: more leaves the sender waiting for room, less wakes too often.
const lowWater = 256 << 10

// Conn is one connection with one session on it. One goroutine receives; callers send
// for themselves, one after the other, and verify and decrypt what is theirs. It is safe for
// concurrent use.
type Conn struct {
	nc    net.Conn
	cfg   *Config
	pool  *tarn.Pool
	rd    *wire.Reader
	begun time.Time

	ring         ring
	credits      credits
	send         sender
	sealedFrames chan tarn.Buffer // encrypted frames for a caller that waits to decrypt
	frameLimit   atomic.Int64     // bytes of the longest reply asked for so far
	lastFrame    atomic.Int64     // when the last frame came, nanoseconds since begun
	dead         chan struct{}    // closed when the connection has ended
	work         group            // the receiver and what finishes after its caller has gone
	closed       atomic.Bool
	heapGrown    atomic.Bool // growHeap has been done

	// Fixed once Open has returned.
	agreed    agreement
	sec       atomic.Pointer[security]
	validated atomic.Bool // VALIDATE_NEGOTIATE_INFO has been answered well

	reauth reauthentication
}

// Open negotiates and logs in on nc. It takes ownership of nc: it is closed with the Conn, or
// when Open fails. previous is the id of the session that this one replaces, which the server
// then gives up at once; zero: none.
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
	c.frameLimit.Store(replyRoom)
	c.send.init(nc)
	c.rd.SetSizes(idleReadBuffer, maxReadBuffer)
	c.rd.SetLowWater(lowWater)
	c.work.run(c.receive)
	return c
}

// Terms are what was agreed with the server. They must not be changed.
func (c *Conn) Terms() *Terms { return &c.agreed.Terms }

// Alive reports whether requests may still be sent.
func (c *Conn) Alive() bool { return !c.closed.Load() }

// Err is why the connection ended, nil while it has not. It matches one of ErrLost, ErrProtocol
// and ErrSecurity.
func (c *Conn) Err() error {
	c.ring.mu.Lock()
	defer c.ring.mu.Unlock()
	return c.ring.err
}

// Close ends the connection with err as the reason, without a LOGOFF, and waits
// until no goroutine of the connection is left.
func (c *Conn) Close(err error) {
	c.fail(classified(err))
	c.Wait()
}

// Wait returns when no goroutine of a connection that has ended is left.
func (c *Conn) Wait() { c.work.wait() }

// fail ends the connection: every call and every caller that waits gets err, which
// matches one of ErrLost, ErrProtocol and ErrSecurity. Only the first error counts.
func (c *Conn) fail(err error) {
	c.ring.mu.Lock()
	if c.ring.err != nil {
		c.ring.mu.Unlock()
		return
	}
	// Both under the lock: a caller that finds the connection closed finds the reason, too.
	c.ring.err = err
	c.closed.Store(true)
	c.ring.mu.Unlock()
	// The receiver comes out of its read, and ends the call it was placing data for:
	// until then that slice is not given back.
	c.nc.Close()
	c.credits.fail(err)
	c.ring.mu.Lock()
	// The ring is empty afterwards: a call that is over belongs to its caller alone.
	c.ring.clear(func(cl *Call) {
		if cl.state == callPending {
			cl.state = callDone
			cl.err = err
			cl.done <- struct{}{}
		}
	})
	c.ring.mu.Unlock()
	close(c.dead)
}

// malformed ends the connection over a reply that a decoder refused.
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

// Logoff ends the session on the server, so that it does not linger there.
func (c *Conn) Logoff(ctx context.Context) error {
	return c.do(ctx, c.newCall(proto.CommandLogoff, 0), simple{}, inClear)
}

// Echo sends an ECHO and waits for its reply.
func (c *Conn) Echo(ctx context.Context) error {
	return c.do(ctx, c.newCall(proto.CommandEcho, 0), simple{}, inClear)
}

// keepAlive sends an ECHO when no frame has come for the time every, and gives the
// connection up when none comes for as long again.
func (c *Conn) keepAlive(every time.Duration) {
	timer := time.NewTimer(every)
	defer timer.Stop()
	for {
		select {
		case <-c.dead:
			return
		case <-timer.C:
		}
		silent := time.Since(c.begun) - time.Duration(c.lastFrame.Load())
		if silent < every {
			timer.Reset(every - silent)
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), every)
		err := c.Echo(ctx)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			c.fail(&connError{ErrLost, errors.New("the server does not answer ECHO")})
		}
		timer.Reset(every)
	}
}
