package smb

import (
	"errors"
	"os"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/smb/internal/crypt"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/wire"
)

// receive is the receiving goroutine: it lives as long as the connection.
func (c *conn) receive() {
	var err error
	for err == nil {
		err = c.receiveFrame()
	}
	c.fail(lost(err))
	c.rd.Release()
}

// receiveFrame receives one frame and passes on what is in it.
func (c *conn) receiveFrame() error {
	n, err := c.rd.FrameLen(wire.MaxFrameLen)
	if err != nil {
		return err
	}
	// Looked at only now: the request may have been made while the receiver waited.
	if int64(n) > c.largest.Load()+crypt.Overhead {
		return protocolError("frame longer than anything asked for")
	}
	c.heard.Store(int64(time.Since(c.begun)))
	if n < proto.HeaderSize {
		return protocolError("frame shorter than a header")
	}
	p, err := c.rd.Peek(min(n, proto.ReadResponsePrefix))
	if err != nil {
		return err
	}
	switch proto.Protocol(p) {
	case proto.ProtocolSMB2:
		h, err := proto.DecodeHeader(p)
		if err != nil {
			return err
		}
		if h.Command == proto.CommandRead && h.Status == proto.StatusSuccess && h.NextCommand == 0 && n > len(p) {
			if cl, err := c.placeable(&h, p, n); err != nil {
				return err
			} else if cl != nil {
				return c.place(cl, p, n-proto.ReadResponsePrefix)
			}
		}
		c.rd.Trust(n) // no longer than what was asked for: FrameLen saw to it
		buf, err := c.rd.Next(n)
		if err != nil {
			return err
		}
		return c.deliverFrame(buf, inClear)
	case proto.ProtocolTransform:
		return c.receiveSealed(n)
	}
	return protocolError("frame of an unknown kind")
}

// placeable finds the call whose READ reply begins with p, and marks it as being
// received when the data can go straight to its slice: right behind the fixed part, to
// the end of the frame, and no longer than asked for. nil: take the long way.
func (c *conn) placeable(h *proto.Header, p []byte, n int) (*call, error) {
	prefix, err := proto.DecodeReadPrefix(p)
	if err != nil {
		return nil, err
	}
	c.ring.mu.Lock()
	defer c.ring.mu.Unlock()
	cl := c.ring.find(h.MessageID)
	if cl == nil || cl.state != callPending || len(cl.dst) == 0 ||
		int(prefix.Length) > len(cl.dst) || prefix.Offset != proto.ReadResponsePrefix ||
		int64(prefix.Length) != int64(n)-proto.ReadResponsePrefix {
		return nil, nil
	}
	if err := c.accept(cl, h, inClear); err != nil {
		return nil, err
	}
	c.ring.remove(cl)
	c.settle(cl, h)
	cl.state = callReceiving
	cl.status = h.Status
	return cl, nil
}

// place receives n bytes of data into cl.dst. Should the caller want its slice back
// meanwhile, the rest goes nowhere.
func (c *conn) place(cl *call, p []byte, n int) error {
	copy(cl.head[:], p)
	if err := c.rd.Discard(len(p)); err != nil {
		return c.placed(cl, 0, err)
	}
	dst := cl.dst[:n]
	for got := 0; got < n; {
		k, err := c.rd.Read(dst[got:])
		got += k
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) && c.letGo(cl) {
				return c.rd.Discard(n - got)
			}
			return c.placed(cl, got, err)
		}
	}
	return c.placed(cl, n, nil)
}

// placed ends a placing. The caller may touch its slice again.
func (c *conn) placed(cl *call, n int, err error) error {
	c.ring.mu.Lock()
	if cl.divert {
		c.nc.SetReadDeadline(time.Time{})
	}
	cl.state, cl.direct, cl.placed, cl.err = callDone, true, n, lost(err)
	if err != nil && c.ring.err != nil {
		cl.err = c.ring.err // what closed the connection under the receiver
	}
	cl.done <- struct{}{}
	c.ring.mu.Unlock()
	return err
}

// letGo gives cl.dst back to a caller who asked for it, amid the placing.
func (c *conn) letGo(cl *call) bool {
	c.ring.mu.Lock()
	defer c.ring.mu.Unlock()
	if !cl.divert {
		return false
	}
	c.nc.SetReadDeadline(time.Time{})
	cl.state = callDone
	cl.done <- struct{}{}
	return true
}

// openAtOnce is the length of an encrypted frame up to which the receiver opens it
// itself, which costs less than waking somebody. It also keeps an interim reply, which is
// shorter, ahead of the last reply to the same request.
const openAtOnce = 4 << 10

// receiveSealed receives an encrypted frame and finds somebody to open it: a caller
// who waits, else the receiver does it itself.
func (c *conn) receiveSealed(n int) error {
	sec := c.sec.Load()
	if sec == nil || sec.opener == nil {
		return securityError("encrypted message without a key to open it")
	}
	buf := c.pool.Get(n + crypt.Spare)
	if _, err := c.rd.ReadFull(buf.Bytes()[:n]); err != nil {
		buf.Free()
		return err
	}
	if n > openAtOnce {
		select {
		case c.helpers <- buf:
			return nil
		default:
		}
	}
	return c.openFrame(buf)
}

// openFrame decrypts a frame in place and delivers it. It takes ownership of buf.
func (c *conn) openFrame(buf tarn.Buffer) error {
	sec := c.sec.Load()
	b := buf.Bytes()
	h, err := proto.DecodeTransformHeader(b[:len(b)-crypt.Spare])
	if err == nil && h.SessionID != sec.sessionID {
		err = securityError("encrypted message of another session")
	}
	if err == nil {
		if _, e := sec.opener.Open(b); e != nil {
			err = &connError{ErrSecurity, e}
		}
	}
	if err != nil {
		buf.Free()
		return err
	}
	return c.deliverFrame(buf.Narrow(crypt.Overhead, len(b)-crypt.Spare), sealed)
}
