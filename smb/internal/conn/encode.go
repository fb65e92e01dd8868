package conn

import (
	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/smb/internal/crypt"
	"github.com/tarn-go/tarn/smb/internal/directtcp"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// coalesce is the length in bytes below which a payload is copied behind its header instead of being passed
// by reference.
const coalesce = 2 << 10

// frame is one outgoing frame: the encoded part, owned, and a borrowed payload.
type frame struct {
	buf     tarn.Buffer
	payload []byte
}

func (f *frame) free() { f.buf.Free(); f.buf = tarn.Buffer{} }

// protect decides how a request is protected.
func (c *Conn) protect(cl *Call, least protection) *security {
	sec := c.sec.Load()
	cl.protection = inClear
	if sec == nil {
		return nil
	}
	cl.session, cl.epoch = sec.sessionID, c.reauth.epoch.Load()
	switch {
	case sec.sealer != nil && (least == sealed || sec.encryptAll):
		cl.protection = sealed
	case sec.signer != nil && (sec.signAll || cl.force):
		cl.protection = signed
	}
	return sec
}

// header is the SMB2 header of cl.
func (c *Conn) header(cl *Call) proto.Header {
	h := proto.Header{
		Command:   cl.cmd,
		Flags:     cl.flags,
		MessageID: cl.mid,
		TreeID:    cl.tree,
		SessionID: cl.session,
		Credits:   c.credits.request(cl.charge),
	}
	if c.agreed.Dialect >= proto.Dialect210 {
		h.CreditCharge = uint16(cl.charge)
	}
	if cl.protection == signed {
		h.Flags |= proto.FlagSigned
	}
	return h
}

// encode makes the frame of one request. MessageId, charge and protection are set already.
func (c *Conn) encode(sec *security, cl *Call, req Request) (frame, error) {
	size := directtcp.HeaderLen + proto.HeaderSize + req.Size()
	inline := len(cl.Payload) > 0 && (cl.protection == sealed || len(cl.Payload) < coalesce)
	if cl.protection == sealed {
		size += crypt.Overhead + crypt.Spare
	}
	if inline {
		size += len(cl.Payload)
	}
	f := frame{buf: c.pool.Get(size)}
	b := f.buf.Bytes()[:directtcp.HeaderLen]
	if cl.protection == sealed {
		b = b[:directtcp.HeaderLen+crypt.Overhead]
	}
	start := len(b)
	h := c.header(cl)
	b = req.Append(h.Append(b))
	if inline {
		b = append(b, cl.Payload...)
	} else {
		f.payload = cl.Payload
	}
	if cl.protection == signed {
		rest := cl.rest[:0]
		if len(f.payload) > 0 {
			rest = append(rest, f.payload)
		}
		sec.signer.Sign(b[start:], rest)
	}
	return c.finishFrame(sec, cl.protection, f, len(b))
}

// finishFrame encrypts a frame whose messages end at end, if required, and writes the length in front. It takes ownership of f.
func (c *Conn) finishFrame(sec *security, prot protection, f frame, end int) (frame, error) {
	b := f.buf.Bytes()
	if prot == sealed {
		if err := sec.sealer.Seal(b[directtcp.HeaderLen:end+crypt.Spare], sec.sessionID); err != nil {
			f.free()
			return frame{}, err
		}
	}
	directtcp.PutHeader(b, end-directtcp.HeaderLen+len(f.payload))
	f.buf = f.buf.Narrow(0, end)
	return f, nil
}

// Compounded is one request of a compound.
type Compounded struct {
	Call      *Call
	Request   Request
	Also      proto.Status // a status accepted besides success
	AnyStatus bool         // the caller looks at the status
}

// encodeCompound makes one frame of several requests (3.2.4.1.4), each with its own signature.
func (c *Conn) encodeCompound(sec *security, compound []Compounded) (frame, error) {
	prot := compound[0].Call.protection
	size := directtcp.HeaderLen
	if prot == sealed {
		size += crypt.Overhead + crypt.Spare
	}
	for _, p := range compound {
		size += (proto.HeaderSize + p.Request.Size() + len(p.Call.Payload) + 7) &^ 7
	}
	f := frame{buf: c.pool.Get(size)}
	b := f.buf.Bytes()[:directtcp.HeaderLen]
	if prot == sealed {
		b = b[:directtcp.HeaderLen+crypt.Overhead]
	}
	for i, p := range compound {
		start := len(b)
		h := c.header(p.Call)
		b = p.Request.Append(h.Append(b))
		b = append(b, p.Call.Payload...)
		if i < len(compound)-1 {
			b = proto.PadCompound(b, start)
		}
		if prot == signed {
			sec.signer.Sign(b[start:], nil)
		}
	}
	return c.finishFrame(sec, prot, f, len(b))
}

// replaceByEcho rewrites a request that its caller gave up before it was sent into an ECHO with the same
// MessageId and charge, so that no MessageId is left out.
func (c *Conn) replaceByEcho(cl *Call) (frame, error) {
	cl.cmd, cl.tree, cl.Payload, cl.flags = proto.CommandEcho, 0, nil, 0
	return c.encode(c.sec.Load(), cl, simple{})
}
