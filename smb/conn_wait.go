package smb

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

var le = binary.LittleEndian

// longAgo is a deadline that has passed.
func longAgo() time.Time { return time.Unix(1, 0) }

// finish waits for the reply to cl and verifies it. With a nil error cl is the
// caller's to look at and release; with any other it is gone already. Refusals by the
// server are no errors here: they are in cl.status.
//
// Meanwhile the caller lends a hand: it opens encrypted frames as they come, be they
// its own or not, so that decryption runs in the callers' goroutines.
func (cl *call) finish(ctx context.Context) error {
	c := cl.c
	if ctx.Err() == nil && c.lead(cl) {
		c.readFor(cl)
	}
	for {
		select {
		case <-cl.done:
			return cl.finished()
		case buf := <-c.helpers:
			if err := c.openFrame(buf); err != nil {
				c.fail(lost(err))
			}
		case <-ctx.Done():
			if err := cl.abandon(ctx); err != nil {
				return err
			}
			<-cl.done
			return cl.finished()
		}
	}
}

func (cl *call) finished() error {
	err := cl.err
	if err == nil {
		err = cl.verify()
	}
	if err != nil {
		cl.release()
	}
	return err
}

// abandon gives up a registered call and returns the context's error; cl and what it
// borrowed are out of use then. It returns nil when the call is over already, and
// leaves done signalled.
func (cl *call) abandon(ctx context.Context) error {
	c := cl.c
	c.ring.mu.Lock()
	switch cl.state {
	case callPending:
		cl.state, cl.dst, cl.payload = callAbandoned, nil, nil
		mid, async, guard := cl.mid, cl.async, cl.guard
		c.ring.gone.add(mid)
		c.ring.turn.delegate()
		c.ring.mu.Unlock()
		c.work.run(func() { c.sendCancel(mid, async, guard) })
		return ctxError(ctx)
	case callReceiving:
		cl.divert = true
		c.nc.SetReadDeadline(longAgo()) // kicks the receiver; it takes the deadline off again
		c.ring.mu.Unlock()
		<-cl.done
		cl.release()
		return ctxError(ctx)
	}
	c.ring.mu.Unlock()
	return nil
}

// roundTrip sends one request and waits for its reply. With a nil error the caller
// releases cl. A refusal by the server comes as a *ResponseError, cl being released,
// unless its status is among the expected.
func (c *conn) roundTrip(ctx context.Context, cl *call, req request, least protection, expected ...proto.Status) error {
	if err := c.start(ctx, cl, req, least); err != nil {
		return err
	}
	if err := cl.finish(ctx); err != nil {
		return err
	}
	return cl.judge(expected)
}

// judge turns a refusal into an error and releases cl with it.
func (cl *call) judge(expected []proto.Status) error {
	if cl.status == proto.StatusSuccess {
		return nil
	}
	for _, s := range expected {
		if cl.status == s {
			return nil
		}
	}
	err := cl.failure()
	cl.release()
	return err
}

// compound sends related requests in one frame and waits for all replies. It returns
// the first refusal. With a nil error the calls are the caller's to release. With too few
// credits for all of them together it fails with errNoCredits, and nothing was sent.
func (c *conn) compound(ctx context.Context, parts []part, least protection) error {
	if err := c.startCompound(ctx, parts, least); err != nil {
		return err
	}
	var failed error
	for i, p := range parts {
		err := p.cl.finish(ctx)
		if err == nil {
			continue
		}
		parts[i].cl = nil
		if failed == nil {
			failed = err
		}
	}
	if failed == nil {
		for _, p := range parts {
			if p.also != 0 && p.cl.status == p.also {
				continue
			}
			if failed = p.cl.failure(); failed != nil {
				break
			}
		}
	}
	if failed != nil {
		releaseAll(parts)
	}
	return failed
}

// releaseAll releases the calls of a compound.
func releaseAll(parts []part) {
	for _, p := range parts {
		if p.cl != nil {
			p.cl.release()
		}
	}
}
