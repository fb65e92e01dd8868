package conn

import (
	"errors"
	"os"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/smb/internal/crypt"
	"github.com/tarn-go/tarn/smb/internal/directtcp"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// frontPad is the space in front of an encrypted frame in its buffer, chosen so that the ciphertext begins at
// a multiple of 64 bytes.
const frontPad = 64 - crypt.Overhead

// receive is the receiving goroutine. It ends with the connection.
func (c *Conn) receive() {
	for {
		if err := c.receiveFrame(); err != nil {
			c.fail(classified(err))
			c.rd.Release()
			return
		}
	}
}

// receiveFrame receives one frame and delivers what is in it.
func (c *Conn) receiveFrame() error {
	n, err := directtcp.ReadHeader(c.rd, directtcp.MaxLen)
	if err != nil {
		return err
	}
	// Checked only now: the request may have been made while the receiver waited.
	if int64(n) > c.frameLimit.Load()+crypt.Overhead {
		return ProtocolError("frame longer than any requested reply")
	}
	c.rd.SetLowWater(lowWater)
	if n > longFrame {
		c.arriving.Store(true)
		defer c.arriving.Store(false)
	}
	c.cfg.Traffic.Received.Add(uint64(directtcp.HeaderLen + n))
	if n < proto.HeaderSize {
		return ProtocolError("frame shorter than a header")
	}
	p, err := c.rd.Peek(min(n, proto.ReadResponsePrefix))
	if err != nil {
		return err
	}
	switch proto.Protocol(p) {
	case proto.ProtocolSMB2:
		return c.receiveClear(p, n)
	case proto.ProtocolTransform:
		return c.receiveSealed(n)
	}
	return ProtocolError("frame of an unknown kind")
}

// receiveClear receives an unencrypted frame of n bytes that begins with p: the data of a READ directly into
// its caller's slice, everything else into a buffer.
func (c *Conn) receiveClear(p []byte, n int) error {
	h, err := proto.DecodeHeader(p)
	if err != nil {
		return err
	}
	if h.Command == proto.CommandRead && h.Status == proto.StatusSuccess && h.NextCommand == 0 && n > len(p) {
		cl, err := c.placeable(&h, p, n)
		if err != nil {
			return err
		}
		if cl != nil {
			copy(cl.head[:], p)
			c.rd.Discard(len(p)) // these bytes have been peeked
			return c.place(cl, n-len(p))
		}
	}
	if n <= maxReadBuffer/4 {
		buf, err := c.rd.Next(n)
		if err != nil {
			return err
		}
		return c.deliverFrame(buf, inClear)
	}
	// Bounded: receiveFrame has checked the length.
	buf := c.pool.Get(n)
	if _, err := c.rd.ReadFull(buf.Bytes()); err != nil {
		buf.Free()
		return err
	}
	return c.deliverFrame(buf, inClear)
}

// receiveSealed receives an encrypted frame of n bytes and passes it to a waiting caller to decrypt, or
// decrypts it.
func (c *Conn) receiveSealed(n int) error {
	if sec := c.sec.Load(); sec == nil || sec.opener == nil {
		return securityError("encrypted message without a key to decrypt it")
	}
	room := frontPad + n + crypt.Spare
	buf := c.pool.Get(room).Narrow(frontPad, room)
	if _, err := c.rd.ReadFull(buf.Bytes()[:n]); err != nil {
		buf.Free()
		return err
	}
	if n > decryptInline {
		select {
		case c.sealedFrames <- buf: // takes ownership
			return nil
		default:
		}
	}
	return c.decryptFrame(buf)
}

// placeable finds the call whose READ reply begins with p, and marks it as being received when the data can
// go directly to its slice: it follows the fixed part, ends with the frame, and is no longer than requested.
// nil: the reply is received into a buffer.
func (c *Conn) placeable(h *proto.Header, p []byte, n int) (*Call, error) {
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
	c.bookCredits(cl, h)
	cl.state = callReceiving
	cl.Status = h.Status
	return cl, nil
}

// place receives n bytes into the slice of cl. When the caller reclaims the slice meanwhile, the remaining
// bytes are skipped.
func (c *Conn) place(cl *Call, n int) error {
	got, err := c.rd.ReadFull(cl.dst[:n])
	if c.placed(cl, got, err) {
		return c.pass(n - got)
	}
	return err
}

// placed ends the receiving into the slice of cl, which the caller may use again: n bytes are in it, unless
// err is not nil. It reports whether the caller has interrupted it.
func (c *Conn) placed(cl *Call, n int, err error) (interrupted bool) {
	c.ring.mu.Lock()
	defer c.ring.mu.Unlock()
	if c.interrupts.reclaim {
		c.interrupts.reclaim = false
		c.nc.SetReadDeadline(time.Time{})
		interrupted = errors.Is(err, os.ErrDeadlineExceeded)
	}
	cl.state, cl.direct, cl.placed = callDone, true, n
	if err != nil && !interrupted {
		cl.err = classified(err)
		if c.ring.err != nil {
			cl.err = c.ring.err // the reason why the connection was closed during the read
		}
	}
	cl.done <- struct{}{}
	return interrupted
}

// pass skips n bytes.
func (c *Conn) pass(n int) error {
	for n > 0 {
		if _, err := c.rd.Peek(1); err != nil {
			return err
		}
		some := min(n, c.rd.Buffered())
		if _, err := c.rd.Discard(some); err != nil {
			return err
		}
		n -= some
	}
	return nil
}

// decryptInline is the length of an encrypted frame, in bytes, up to which the receiver decrypts it itself,
// which costs less than waking a caller. It also keeps an interim reply, which is shorter, ahead of the final
// reply to the same request.
const decryptInline = 4 << 10

// decryptFrame decrypts a frame in place and delivers it. It takes ownership of buf.
func (c *Conn) decryptFrame(buf tarn.Buffer) error {
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
