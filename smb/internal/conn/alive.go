package conn

import (
	"context"
	"errors"
	"time"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

// Echo sends an ECHO and waits for its reply, unless something has arrived within the last recent.
func (c *Conn) Echo(ctx context.Context, recent time.Duration) error {
	if c.Alive() && ctx.Err() == nil && c.silence() < recent {
		return nil
	}
	return c.do(ctx, c.newCall(proto.CommandEcho, 0), simple{}, inClear)
}

// probe is Echo for keepAlive, which decides what a missing reply means.
func (c *Conn) probe(ctx context.Context) error {
	cl := c.newCall(proto.CommandEcho, 0)
	cl.untimed = true
	return c.do(ctx, cl, simple{}, inClear)
}

// received notes that the server has sent something.
func (c *Conn) received() { c.lastReceived.Store(int64(time.Since(c.begun))) }

// silence is the time since something arrived.
func (c *Conn) silence() time.Duration {
	last := time.Duration(c.lastReceived.Load()) // before the clock: what arrives now must not be newer
	return time.Since(c.begun) - last
}

// keepAlive sends an ECHO when nothing has come for the time every, and ends the connection when nothing comes
// for as long again.
func (c *Conn) keepAlive(every time.Duration) {
	timer := time.NewTimer(every)
	defer timer.Stop()
	for {
		select {
		case <-c.dead:
			return
		case <-timer.C:
		}
		silent := c.silence()
		if silent < every {
			timer.Reset(every - silent)
			continue
		}
		last := c.lastReceived.Load()
		c.receivePartial()
		ctx, cancel := context.WithTimeout(context.Background(), every)
		err := c.probe(ctx)
		cancel()
		// Anything shows that the server is there: the reply to ECHO may be behind others, or a long one.
		if errors.Is(err, context.DeadlineExceeded) && c.lastReceived.Load() == last {
			c.fail(&connError{ErrLost, errors.New("the server does not answer ECHO, and sends nothing else")})
		}
		if silent = c.silence(); silent >= every { // the ECHO failed in another way
			silent = 0
		}
		timer.Reset(every - silent)
	}
}
