package smb

import (
	"errors"
	"os"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/smb/internal/crypt"
	"github.com/tarn-go/tarn/smb/internal/directtcp"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// inbound is the frame that is being received. It outlives the turn of a caller who has
// to give it up midway; it belongs to whoever has the turn.
type inbound struct {
	n    int         // the frame's length; zero between frames
	cl   *call       // whose slice the data goes to,
	buf  tarn.Buffer // or else what the frame is received in
	came protection  // how a frame in buf came
	want int         // bytes to go to either; zero while that is not decided
	got  int         // and how many of them did
	skip int         // bytes that nobody wants any more
}

// inFront is what an encrypted frame has before it in its buffer, so that what is to be
// decrypted and copied begins where memory is read in one piece.
const inFront = 64 - crypt.Overhead

// receive is the receiving goroutine: it lives as long as the connection.
func (c *conn) receive() {
	for {
		if err := c.receiveFrame(); err != nil {
			c.fail(lost(err))
			c.rd.Release()
			return
		}
		if c.idle() {
			c.standBy()
		}
	}
}

// receiveFrame receives one frame, or the rest of one, and passes on what is in it.
func (c *conn) receiveFrame() error {
	in := &c.in
	err := c.receiveHead()
	if err == nil && in.want > 0 {
		err = c.receiveBody()
	}
	if err == nil && in.skip > 0 {
		err = c.skip()
	}
	if err == nil || err == errKicked {
		return err
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if kicked, _ := c.interrupted(nil); kicked {
			return errKicked
		}
	}
	in.buf.Free()
	*in = inbound{}
	return err
}

// receiveHead receives as much of a frame as it takes to know where the rest belongs,
// or all of a short one. Interrupted, it can be called again.
func (c *conn) receiveHead() error {
	in := &c.in
	if in.n == 0 {
		n, err := directtcp.ReadHeader(c.rd, directtcp.MaxLen)
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
		in.n = n
	}
	if in.want > 0 || in.skip > 0 {
		return nil
	}
	p, err := c.rd.Peek(min(in.n, proto.ReadResponsePrefix))
	if err != nil {
		return err
	}
	switch proto.Protocol(p) {
	case proto.ProtocolSMB2:
		return c.receiveClear(p)
	case proto.ProtocolTransform:
		sec := c.sec.Load()
		if sec == nil || sec.opener == nil {
			return securityError("encrypted message without a key to open it")
		}
		room := inFront + in.n + crypt.Spare
		in.buf, in.came, in.want = c.pool.Get(room).Narrow(inFront, room), sealed, in.n
		return nil
	}
	return protocolError("frame of an unknown kind")
}

// receiveClear decides where a frame that begins with p belongs.
func (c *conn) receiveClear(p []byte) error {
	in := &c.in
	h, err := proto.DecodeHeader(p)
	if err != nil {
		return err
	}
	if h.Command == proto.CommandRead && h.Status == proto.StatusSuccess && h.NextCommand == 0 && in.n > len(p) {
		cl, err := c.placeable(&h, p, in.n)
		if err != nil {
			return err
		}
		if cl != nil {
			copy(cl.head[:], p)
			in.cl, in.want = cl, in.n-len(p)
			_, err := c.rd.Discard(len(p))
			return err
		}
	}
	if in.n > mostRead/4 {
		// No longer than what was asked for: receiveHead saw to it.
		in.buf, in.came, in.want = c.pool.Get(in.n), inClear, in.n
		return nil
	}
	buf, err := c.rd.Next(in.n) // can be repeated: it is short, so that nothing is lost
	if err != nil {
		return err
	}
	*in = inbound{}
	return c.deliverFrame(buf, inClear)
}

// receiveBody receives the rest of a frame, and passes it on. Should a caller want its
// slice back meanwhile, the rest goes nowhere.
func (c *conn) receiveBody() error {
	in := &c.in
	dst := in.buf.Bytes()
	if in.cl != nil {
		dst = in.cl.dst
	}
	n, err := c.rd.ReadFull(dst[in.got:in.want])
	in.got += n
	if err != nil {
		return c.cutShort(err)
	}
	done := *in
	*in = inbound{}
	switch {
	case done.cl != nil:
		return c.placed(done.cl, done.got, nil)
	case done.came == sealed:
		return c.received(done.buf)
	}
	return c.deliverFrame(done.buf, done.came)
}

// cutShort deals with an error amid the body of a frame.
func (c *conn) cutShort(err error) error {
	in := &c.in
	if errors.Is(err, os.ErrDeadlineExceeded) {
		kicked, wanted := c.interrupted(in.cl)
		if wanted {
			in.cl, in.skip, in.want, in.got = nil, in.want-in.got, 0, 0
		}
		if kicked {
			return errKicked
		}
		if wanted {
			return nil
		}
	}
	if in.cl != nil {
		return c.placed(in.cl, in.got, err)
	}
	return err
}

// skip moves past what nobody wants.
func (c *conn) skip() error {
	in := &c.in
	for in.skip > 0 {
		if _, err := c.rd.Peek(1); err != nil {
			return err
		}
		n := min(in.skip, c.rd.Buffered())
		if _, err := c.rd.Discard(n); err != nil {
			return err
		}
		in.skip -= n
	}
	*in = inbound{}
	return nil
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

// openAtOnce is the length of an encrypted frame up to which the receiver opens it
// itself, which costs less than waking somebody. It also keeps an interim reply, which is
// shorter, ahead of the last reply to the same request.
const openAtOnce = 4 << 10

// received finds somebody to open an encrypted frame: a caller who waits, else whoever
// reads does it. It takes ownership of buf.
func (c *conn) received(buf tarn.Buffer) error {
	if buf.Len()-crypt.Spare > openAtOnce {
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
