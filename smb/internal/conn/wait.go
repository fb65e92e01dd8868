package conn

import (
	"context"
	"encoding/binary"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

var le = binary.LittleEndian

// finish waits for the reply to cl and verifies it. When the error is nil the caller reads cl and releases
// it; otherwise it is released. A refusal by the server is no error here: it is in cl.Status.
func (cl *Call) finish(ctx context.Context) error {
	err := cl.await(ctx)
	if err == nil {
		if err = cl.verify(); err != nil {
			cl.Release()
		}
	}
	return err
}

// await is finish for a reply of which nothing is used: it is not verified.
//
// Meanwhile the caller decrypts frames as they come, its own and those of other calls, so that decryption
// runs in the callers' goroutines.
func (cl *Call) await(ctx context.Context) error {
	c := cl.c
	for {
		select {
		case <-cl.done:
		case buf := <-c.sealedFrames:
			if err := c.decryptFrame(buf); err != nil {
				c.fail(classified(err))
			}
			continue
		case <-ctx.Done():
			if err := cl.abandon(ctx); err != nil {
				return err
			}
			<-cl.done
		}
		err := cl.err
		if err != nil {
			cl.Release()
		}
		return err
	}
}

// abandon gives up a registered call and returns the context's error; cl and the memory it borrowed are not
// used any more. It returns nil when the call is done already, and leaves done signalled.
func (cl *Call) abandon(ctx context.Context) error {
	c := cl.c
	c.ring.mu.Lock()
	switch cl.state {
	case callPending:
		cl.state, cl.dst, cl.Payload = callAbandoned, nil, nil
		if cl.Detached {
			c.ring.mu.Unlock()
			return ContextError(ctx)
		}
		cl.giveUp()
		mid, async, prot := cl.mid, cl.async, cl.protection
		c.ring.cancelled.add(mid)
		c.ring.mu.Unlock()
		c.work.run(func() { c.sendCancel(mid, async, prot) })
		return ContextError(ctx)
	case callReceiving:
		c.interrupts.reclaim = true
		c.nc.SetReadDeadline(longAgo()) // interrupts the receiver, which clears the deadline again
		c.ring.mu.Unlock()
		<-cl.done
		cl.Release()
		return ContextError(ctx)
	}
	c.ring.mu.Unlock()
	return nil
}

// roundTrip is Tree.RoundTrip for a request with at least the protection least.
func (c *Conn) roundTrip(ctx context.Context, cl *Call, req Request, least protection, expected ...proto.Status) error {
	for {
		if err := c.start(ctx, cl, req, least); err != nil {
			return err
		}
		if err := cl.finish(ctx); err != nil {
			return err
		}
		if !cl.expired() {
			return cl.checkStatus(expected)
		}
		if err := cl.renew(ctx); err != nil {
			if cl.req != nil && ctx.Err() != nil && c.Alive() {
				c.sendAgain(cl, cl.awaitRenewal)
			} else {
				cl.Release()
			}
			return err
		}
		cl.rewind()
	}
}

// Finish waits for the reply to a request that Tree.Start sent. When the error is nil the caller releases cl.
// A refusal is returned as by Tree.RoundTrip, except that the request is not sent again when the session had
// expired: then the error is ErrReauthenticated.
func (cl *Call) Finish(ctx context.Context, expected ...proto.Status) error {
	if err := cl.finish(ctx); err != nil {
		return err
	}
	return cl.checkStatusOrRenew(ctx, expected...)
}

// checkStatus turns a refusal into an error and releases cl with it.
func (cl *Call) checkStatus(expected []proto.Status) error {
	if cl.Status == proto.StatusSuccess {
		return nil
	}
	for _, s := range expected {
		if cl.Status == s {
			return nil
		}
	}
	err := cl.failure()
	cl.Release()
	return err
}

// compound is Tree.CompoundReplies for requests with at least the protection least.
func (c *Conn) compound(ctx context.Context, compound []Compounded, least protection) error {
	for {
		if err := c.startCompound(ctx, compound, least); err != nil {
			return err
		}
		err := finishAll(ctx, compound)
		if err != nil {
			c.discardReplies(compound)
			return err
		}
		if compound[0].Call.expired() {
			// The related requests were refused as well: none had an effect.
			if err = compound[0].Call.renew(ctx); err == nil {
				for _, p := range compound {
					p.Call.rewind()
				}
				continue
			}
		}
		if err != nil {
			ReleaseAll(compound)
		}
		return err
	}
}

// finishAll waits for all replies of a compound. On error the calls without a reply are released. Of a compound that was refused
// because the session has expired only the first reply is used: Samba 4.17 signs the others, to related requests, wrongly.
func finishAll(ctx context.Context, compound []Compounded) error {
	var failed error
	finish := (*Call).finish
	for i, p := range compound {
		err := finish(p.Call, ctx)
		if err != nil {
			compound[i].Call = nil
			if failed == nil {
				failed = err
			}
		} else if i == 0 && p.Call.expired() {
			finish = (*Call).await
		}
	}
	return failed
}

// discardReplies ends a compound whose caller gives up after some of its replies have come.
func (c *Conn) discardReplies(compound []Compounded) {
	for _, p := range compound {
		if p.Call != nil {
			c.discardReply(p.Call)
		}
	}
}

// FirstRefusal is the error of the first refusal among the replies of a compound; nil: there is none.
func FirstRefusal(compound []Compounded) error {
	for _, p := range compound {
		if p.AnyStatus || p.Also != 0 && p.Call.Status == p.Also {
			continue
		}
		if err := p.Call.failure(); err != nil {
			return err
		}
	}
	return nil
}

// do is roundTrip for a request whose reply has no content.
func (c *Conn) do(ctx context.Context, cl *Call, req Request, least protection) error {
	if err := c.roundTrip(ctx, cl, req, least); err != nil {
		return err
	}
	cl.Release()
	return nil
}

// ReleaseAll releases the calls of a compound.
func ReleaseAll(compound []Compounded) {
	for _, p := range compound {
		if p.Call != nil {
			p.Call.Release()
		}
	}
}
