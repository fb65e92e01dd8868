package conn

import (
	"context"
	"errors"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// deliverFrame passes every message of a frame to its call. It takes ownership of buf.
func (c *Conn) deliverFrame(buf tarn.Buffer, came protection) error {
	b := buf.Bytes()
	elements := proto.NewElements(b)
	for at := 0; elements.Next(); {
		n := len(elements.Message())
		if at == 0 && n == len(b) {
			return c.deliver(buf, came)
		}
		if err := c.deliver(buf.Slice(at, at+n), came); err != nil {
			buf.Free()
			return err
		}
		at += n
	}
	buf.Free()
	return elements.Err()
}

// deliver passes one message to its call. It takes ownership of msg.
func (c *Conn) deliver(msg tarn.Buffer, came protection) error {
	h, err := proto.DecodeHeader(msg.Bytes())
	if err != nil {
		msg.Free()
		return err
	}
	if h.MessageID == proto.UnsolicitedMessageID {
		err := c.unsolicited(&h, msg)
		msg.Free()
		return err
	}
	c.ring.mu.Lock()
	cl := c.ring.find(h.MessageID)
	if cl == nil || h.Command == proto.CommandCancel {
		known := c.ring.cancelled.has(h.MessageID)
		c.ring.mu.Unlock()
		msg.Free()
		if known {
			return nil // a second answer to a cancelled request, or an answer to the CANCEL
		}
		return ProtocolError("reply to a request that was not sent")
	}
	if err := c.accept(cl, &h, came); err != nil {
		c.ring.mu.Unlock()
		msg.Free()
		return err
	}
	if h.Status == proto.StatusPending && h.Flags&proto.FlagAsync != 0 {
		c.interim(cl, &h)
		c.ring.mu.Unlock()
		msg.Free()
		return nil
	}
	c.ring.remove(cl)
	c.bookCredits(cl, &h)
	cl.Status, cl.buf, cl.opened = h.Status, msg, came == sealed
	if cl.state == callAbandoned {
		c.ring.mu.Unlock()
		c.discardReply(cl)
		return nil
	}
	cl.state = callDone
	cl.done <- struct{}{}
	c.ring.mu.Unlock()
	return nil
}

// accept checks that a reply belongs to cl and has the protection that the session requires (3.2.5.1). The
// waiting caller verifies the signature itself. ring.mu is held.
func (c *Conn) accept(cl *Call, h *proto.Header, came protection) error {
	switch {
	case h.Flags&proto.FlagResponse == 0:
		return ProtocolError("request from the server")
	case h.Command != cl.cmd:
		return ProtocolError(h.Command.String() + " reply to a " + cl.cmd.String())
	case cl.session != 0 && h.SessionID != cl.session && !(cl.cmd == proto.CommandLogoff && h.SessionID == 0):
		// The answer to a LOGOFF may come without a session, as impacket's does.
		return ProtocolError("reply of another session")
	case h.Flags&proto.FlagAsync == 0 && cl.tree != 0 && h.TreeID != cl.tree && cl.flags&proto.FlagRelated == 0:
		return ProtocolError("reply of another share")
	case cl.state == callDone:
		return ProtocolError("second reply to a " + cl.cmd.String())
	case h.Status == proto.StatusPending && h.Flags&proto.FlagAsync == 0:
		return ProtocolError("interim reply without an id")
	case came == sealed:
		return nil
	case cl.protection == sealed:
		return securityError("clear reply to an encrypted " + cl.cmd.String())
	case cl.protection == signed && h.Flags&proto.FlagSigned == 0 && !(h.Status == proto.StatusPending && h.Flags&proto.FlagAsync != 0):
		// Interim replies are unsigned (3.3.4.4); they hold nothing but an id.
		if h.Status == proto.StatusUserSessionDeleted {
			// A server that has no such session has no key to sign with (3.3.5.2.9). Forged, it ends the connection, as a
			// forged RST does.
			return &connError{ErrLost, errors.New("the server reports, unsigned, that the session does not exist")}
		}
		return securityError("unsigned reply to a signed " + cl.cmd.String())
	}
	return nil
}

// bookCredits counts the credits of a reply. ring.mu is held.
func (c *Conn) bookCredits(cl *Call, h *proto.Header) {
	c.ring.progress(cl)
	switch {
	case !cl.acknowledged:
		c.credits.answered(cl.charge, int(h.Credits), 0)
	default:
		c.credits.answered(0, int(h.Credits), -1)
	}
}

// interim records that the server will answer a request later (3.2.5.1.5). A server may send several interim replies to one request:
// each grants credits, and none extends the time that the caller waits. ring.mu is held.
func (c *Conn) interim(cl *Call, h *proto.Header) {
	charge, parked := cl.charge, 1
	if cl.acknowledged {
		charge, parked = 0, 0
	} else {
		c.ring.progress(cl)
	}
	cl.acknowledged, cl.async = true, h.AsyncID
	c.credits.answered(charge, int(h.Credits), parked)
}

// discardReply frees the reply to a call that its caller has given up.
func (c *Conn) discardReply(cl *Call) {
	switch {
	case cl.Undo != nil && cl.err == nil && cl.Status == proto.StatusSuccess:
		cl.giveUp()
		c.work.run(func() {
			if cl.verify() == nil {
				cl.Undo(cl)
			}
			cl.settle()
			cl.Release()
		})
	case cl.req != nil && cl.err == nil && cl.expired(): // detached, and sent alone
		c.sendAgain(cl, func(ctx context.Context) error {
			if err := cl.verify(); err != nil {
				return err
			}
			return cl.renew(ctx)
		})
	default:
		cl.settle()
		cl.Release()
	}
}

// unsolicited handles a message that answers no request: an oplock or lease break. It is never signed, and a
// lease break, which belongs to no session, is not encrypted either (3.3.4.6, 3.3.4.7). A forged break can
// only lose a durable handle.
func (c *Conn) unsolicited(h *proto.Header, msg tarn.Buffer) error {
	if h.Command != proto.CommandOplockBreak || h.Flags&proto.FlagResponse == 0 {
		return ProtocolError("unasked " + h.Command.String())
	}
	b, err := proto.DecodeBreak(msg.Bytes())
	if err != nil {
		return err
	}
	if t := c.cfg.Broken(c, &b); t != nil {
		return t.acknowledge(&b)
	}
	return nil
}

// errBreaks is returned to a server that does not let the client acknowledge what it breaks.
var errBreaks = ProtocolError("it breaks leases or oplocks, and neither answers nor grants credits")

// acknowledge answers the break of a lease or an oplock (3.2.5.19), as a detached request.
func (t *Tree) acknowledge(b *proto.Break) error {
	if b.IsLease && b.Flags&proto.LeaseBreakAckRequired == 0 {
		return nil
	}
	if t.c.detached.waiting() >= maxDetached {
		return errBreaks
	}
	var req Request = &proto.OplockAck{FileID: b.FileID, Oplock: b.Oplock}
	if b.IsLease {
		req = &proto.LeaseAck{Key: b.LeaseKey, State: b.NewState}
	}
	cl := t.Call(proto.CommandOplockBreak)
	cl.Detached, cl.req, cl.least = true, req, t.protection
	t.c.detach(cl)
	return nil
}

var errSignature = errors.New("a reply's signature does not verify")

// verify checks the signature of the reply in cl, in the waiting caller's goroutine. A wrong signature ends
// the connection.
func (cl *Call) verify() error {
	c := cl.c
	if cl.opened {
		return nil // the authentication tag of the encryption was checked
	}
	sec := c.sec.Load()
	if sec == nil || sec.signer == nil {
		return nil
	}
	head, rest := cl.buf.Bytes(), cl.rest[:0]
	if cl.direct {
		head = cl.head[:]
		if cl.placed > 0 {
			rest = append(rest, cl.dst[:cl.placed])
		}
	}
	if len(head) < proto.HeaderSize {
		return nil // no reply: the connection failed
	}
	if proto.Flags(le.Uint32(head[proto.OffsetFlags:]))&proto.FlagSigned == 0 {
		return nil // accept has refused it where a signature is required
	}
	if !sec.signer.Verify(head, rest) {
		err := &connError{ErrSecurity, errSignature}
		c.fail(err)
		return err
	}
	return nil
}
