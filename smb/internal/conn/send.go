package conn

import (
	"context"
	"errors"

	"github.com/tarn-go/tarn/smb/internal/crypt"
	"github.com/tarn-go/tarn/smb/internal/directtcp"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// start sends the request req in the slot cl, whose reply may carry cl.Expect bytes. It waits for credits and
// for the right to write. On error cl is released, at once or later, and the caller must not use it; if ctx has
// ended and cl.Detached is set, req is sent nevertheless. cl.Payload and cl.dst are borrowed until start fails or the call is over.
func (c *Conn) start(ctx context.Context, cl *Call, req Request, least protection) error {
	if cl.Detached {
		cl.req, cl.least = req, least
	}
	want := c.charged(max(len(cl.Payload), cl.Expect))
	mid, got, err := c.credits.acquire(ctx, cl, want, want)
	if err != nil {
		// Not by err: the reason why the connection ended may be a context's end, too, that of a new authentication.
		if cl.Detached && ctx.Err() != nil {
			c.detach(cl)
			return err
		}
		cl.Release()
		return err
	}
	return c.startWith(ctx, cl, req, least, mid, got)
}

// startWith is start with credits already taken.
func (c *Conn) startWith(ctx context.Context, cl *Call, req Request, least protection, mid uint64, charge int) error {
	cl.mid, cl.charge = mid, charge
	c.raiseFrameLimit(cl.Expect)
	sec := c.protect(cl, least)
	f, err := c.encode(sec, cl, req)
	if err != nil {
		cl.Release()
		c.fail(&connError{ErrSecurity, err}) // the sealer's nonces are used up
		return err
	}
	if cl.preauth != nil {
		cl.preauth.Update(f.buf.Bytes()[directtcp.HeaderLen:])
	}
	if err := c.ring.add(cl); err != nil {
		f.free()
		cl.Release()
		return err
	}
	if err := c.send.lock(ctx); err != nil {
		if cl.Detached {
			c.detachEncoded(cl, f)
			return err
		}
		f.free()
		c.abandonUnsent(cl)
		return err
	}
	if err := c.write(ctx, f); err != nil {
		return c.writeFailed(ctx, cl, err)
	}
	cl.sent.Store(true)
	return nil
}

// raiseFrameLimit raises the bound on the length of a frame by what is going to be asked for.
func (c *Conn) raiseFrameLimit(expect int) {
	for n := int64(expect + replyRoom); ; {
		old := c.frameLimit.Load()
		if old >= n || c.frameLimit.CompareAndSwap(old, n) {
			return
		}
	}
}

// writeFailed decides how a registered call ends whose write returned err.
func (c *Conn) writeFailed(ctx context.Context, cl *Call, err error) error {
	if errors.As(err, new(*contextError)) { // the byte stream is intact
		if gone := cl.abandon(ctx); gone != nil {
			return gone
		}
		<-cl.done // the reply came first
		c.discardReply(cl)
		return err
	}
	c.fail(classified(err))
	err = c.Err() // the reason why the connection was closed during the write, if there is one
	<-cl.done     // by fail, or by the receiver when a reply came first
	cl.Release()
	return err
}

// abandonUnsent gives up a registered call before its frame was sent. Its MessageId must be sent
// nevertheless, or the server's window would never move past it.
func (c *Conn) abandonUnsent(cl *Call) {
	c.ring.mu.Lock()
	if cl.state != callPending {
		c.ring.mu.Unlock()
		<-cl.done
		cl.Release()
		return
	}
	cl.state = callAbandoned
	cl.dst, cl.Undo, cl.Effect = nil, nil, nil
	f, err := c.replaceByEcho(cl)
	c.ring.mu.Unlock()
	if err != nil {
		c.fail(&connError{ErrSecurity, err})
		return
	}
	c.work.run(func() { c.writeDetached(f) })
}

// writeDetached sends a frame whose caller has returned. It takes ownership of f.
func (c *Conn) writeDetached(f frame) {
	ctx := context.Background()
	select {
	case <-c.send.token:
	case <-c.dead:
		f.free()
		return
	}
	if err := c.write(ctx, f); err != nil {
		c.fail(classified(err))
	}
}

// sendCancel asks the server to cancel the request with the MessageId mid (3.2.4.24). CANCEL costs no credit,
// takes no MessageId and has no reply.
func (c *Conn) sendCancel(mid, async uint64, prot protection) {
	sec := c.sec.Load()
	h := proto.Header{Command: proto.CommandCancel, MessageID: mid}
	if sec != nil {
		h.SessionID = sec.sessionID
	}
	if async != 0 {
		h.Flags |= proto.FlagAsync
		h.AsyncID = async
	}
	if prot == signed {
		h.Flags |= proto.FlagSigned
	}
	size := directtcp.HeaderLen + proto.HeaderSize + proto.SimpleSize
	start := directtcp.HeaderLen
	if prot == sealed {
		size += crypt.Overhead + crypt.Spare
		start += crypt.Overhead
	}
	f := frame{buf: c.pool.Get(size)}
	b := proto.AppendSimple(h.Append(f.buf.Bytes()[:start]))
	if prot == signed {
		sec.signer.Sign(b[start:], nil)
	}
	f, err := c.finishFrame(sec, prot, f, len(b))
	if err != nil {
		c.fail(&connError{ErrSecurity, err})
		return
	}
	c.writeDetached(f)
}

// startCompound sends several related requests as one frame. On error the calls are released, at once or
// later.
func (c *Conn) startCompound(ctx context.Context, compound []Compounded, least protection) error {
	want, expect := 0, 0
	for _, p := range compound {
		p.Call.charge = c.charged(max(len(p.Call.Payload), p.Call.Expect))
		want += p.Call.charge
		expect += p.Call.Expect + replyRoom
	}
	mid, err := c.credits.acquireAll(ctx, compound[0].Call, want)
	if err != nil {
		for _, p := range compound {
			p.Call.Release()
		}
		return err
	}
	c.raiseFrameLimit(expect)
	var sec *security
	for i, p := range compound {
		p.Call.mid = mid
		mid += uint64(p.Call.charge)
		sec = c.protect(p.Call, least)
		if i > 0 {
			p.Call.flags |= proto.FlagRelated
		}
	}
	f, err := c.encodeCompound(sec, compound)
	for i := 0; err == nil && i < len(compound); i++ {
		if err = c.ring.add(compound[i].Call); err != nil {
			compound = compound[i:] // the earlier ones were ended by fail
			f.free()
		}
	}
	if err != nil {
		for _, p := range compound {
			p.Call.Release()
		}
		c.fail(classified(err))
		return err
	}
	if err := c.send.lock(ctx); err != nil {
		f.free()
		for _, p := range compound {
			c.abandonUnsent(p.Call)
		}
		return err
	}
	if err := c.write(ctx, f); err != nil {
		if !errors.As(err, new(*contextError)) {
			c.fail(classified(err))
			err = c.Err()
		}
		return c.abandonAll(ctx, compound, err)
	}
	for _, p := range compound {
		p.Call.sent.Store(true)
	}
	return nil
}

// abandonAll gives up every request of a compound and returns err.
func (c *Conn) abandonAll(ctx context.Context, compound []Compounded, err error) error {
	for _, p := range compound {
		if p.Call.abandon(ctx) == nil {
			<-p.Call.done
			c.discardReply(p.Call)
		}
	}
	return err
}
