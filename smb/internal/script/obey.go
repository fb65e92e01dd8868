package script

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

// Obey answers m as a correct server does.
func (c *Conn) Obey(m *Message) error { return c.obey(m) }

func (c *Conn) obey(m *Message) error {
	switch m.Command {
	case proto.CommandNegotiate:
		return c.negotiate(m)
	case proto.CommandSessionSetup:
		return c.login(m)
	case proto.CommandTreeConnect:
		m.TreeID = Tree
		return c.Reply(m, 0, []byte{16, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0x01, 0x1f, 0}, AsAsked)
	case proto.CommandCreate:
		return c.create(m)
	case proto.CommandClose:
		msg := c.Begin(m, 0, 60)
		clear(msg[proto.HeaderSize:])
		msg[proto.HeaderSize] = 60
		return c.End(m, len(msg), AsAsked)
	case proto.CommandRead:
		return c.read(m)
	case proto.CommandWrite:
		n := le.Uint32(m.Body[4:])
		c.Written += int64(n)
		msg := c.Begin(m, 0, 16)
		clear(msg[proto.HeaderSize:])
		msg[proto.HeaderSize] = 17
		le.PutUint32(msg[proto.HeaderSize+4:], n)
		return c.End(m, len(msg), AsAsked)
	case proto.CommandCancel:
		return nil
	case proto.CommandIoctl:
		if le.Uint32(m.Body[4:]) == proto.FsctlValidateNegotiate {
			return c.validate(m)
		}
		return c.Refuse(m, proto.StatusNotSupported)
	case proto.CommandQueryInfo:
		return c.queryInfo(m)
	case proto.CommandSetInfo:
		return c.Reply(m, 0, []byte{2, 0}, AsAsked)
	case proto.CommandQueryDirectory, proto.CommandChangeNotify, proto.CommandLock:
		return c.Refuse(m, proto.StatusNotSupported)
	}
	return c.Reply(m, 0, []byte{4, 0, 0, 0}, AsAsked)
}

func (c *Conn) dialect() proto.Dialect {
	if c.S.Dialect == 0 {
		return proto.Dialect311
	}
	return c.S.Dialect
}

func (c *Conn) negotiate(m *Message) error {
	d := c.dialect()
	c.offered = offered(m)
	c.signing, c.answersSigning = c.S.Signing, true
	if c.S.newMechanism() != nil && d == proto.Dialect311 {
		// A client is answered according to its offers: with CMAC when it offers no signing algorithms.
		o := readOffers(m)
		if c.S.Cipher != 0 && !slices.Contains(o.ciphers, c.S.Cipher) {
			return errLogin
		}
		if c.answersSigning = len(o.signers) > 0; !slices.Contains(o.signers, c.signing) {
			c.signing = proto.SigningAESCMAC
		}
	}
	b := make([]byte, 64)
	le.PutUint16(b, 65)
	le.PutUint16(b[2:], uint16(proto.SigningEnabled))
	if c.S.Signed {
		le.PutUint16(b[2:], uint16(proto.SigningEnabled|proto.SigningRequired))
	}
	le.PutUint16(b[4:], uint16(d))
	caps := proto.CapLargeMTU | c.S.Capabilities
	if d == proto.Dialect202 {
		caps = 0
	}
	if c.S.Cipher != 0 {
		caps |= proto.CapEncryption
	}
	le.PutUint32(b[24:], uint32(caps))
	c.caps, c.mode = caps, proto.SecurityMode(le.Uint16(b[2:]))
	size := c.S.MaxIO
	if size == 0 {
		size = 8 << 20
	}
	for i := 28; i < 40; i += 4 {
		le.PutUint32(b[i:], size)
	}
	le.PutUint16(b[56:], proto.HeaderSize+64)
	if x := c.S.newMechanism(); x != nil {
		token := offer(x.OID())
		le.PutUint16(b[58:], uint16(len(token)))
		b = append(b, token...)
	}
	if d == proto.Dialect311 {
		for len(b)%8 != 0 {
			b = append(b, 0)
		}
		le.PutUint32(b[60:], uint32(proto.HeaderSize+len(b)))
		context := func(kind uint16, data ...byte) {
			for len(b)%8 != 0 {
				b = append(b, 0)
			}
			b = le.AppendUint16(b, kind)
			b = le.AppendUint16(b, uint16(len(data)))
			b = append(b, 0, 0, 0, 0)
			b = append(b, data...)
		}
		context(1, 1, 0, 0, 0, 1, 0)
		n := uint16(1)
		if c.answersSigning {
			context(8, 1, 0, byte(c.signing), 0)
			n++
		}
		if c.S.Cipher != 0 {
			context(2, 1, 0, byte(c.S.Cipher), 0)
			n++
		}
		le.PutUint16(b[6:], n)
	}
	msg := c.Begin(m, 0, len(b))
	copy(msg[proto.HeaderSize:], b)
	c.preauth.Update(msg)
	return c.End(m, len(msg), InClear)
}

// offered is the part of m, a NEGOTIATE, that a client repeats in VALIDATE_NEGOTIATE_INFO (2.2.31.4).
func offered(m *Message) []byte {
	list := m.Body[36:]
	b := slices.Concat(m.Body[8:12], m.Body[12:28], m.Body[4:6], m.Body[2:4])
	return append(b, list[:min(len(list), 2*int(le.Uint16(m.Body[2:])))]...)
}

// errValidate ends a connection whose client sent another NEGOTIATE than the server received (3.3.5.15.12).
var errValidate = errors.New("script: NEGOTIATE was changed on its way")

// validate compares the client's repetition of its NEGOTIATE with what was received, and repeats the answer.
func (c *Conn) validate(m *Message) error {
	off, n := int64(le.Uint32(m.Body[24:]))-proto.HeaderSize, int64(le.Uint32(m.Body[28:]))
	if off < 0 || off+n > int64(len(m.Body)) || !bytes.Equal(m.Body[off:off+n], c.offered) {
		return errValidate
	}
	b := make([]byte, 48+24)
	b[0] = 49
	le.PutUint32(b[4:], proto.FsctlValidateNegotiate)
	le.PutUint32(b[32:], proto.HeaderSize+48)
	le.PutUint32(b[36:], 24)
	le.PutUint32(b[48:], uint32(c.caps))
	le.PutUint16(b[68:], uint16(c.mode))
	le.PutUint16(b[70:], uint16(c.dialect()))
	return c.Reply(m, 0, b, AsAsked)
}

func (c *Conn) size() int64 {
	if c.S.Size == 0 {
		return 1 << 30
	}
	return c.S.Size
}

func (c *Conn) create(m *Message) error {
	msg := c.Begin(m, 0, 88)
	b := msg[proto.HeaderSize:]
	clear(b)
	b[0] = 89
	le.PutUint32(b[4:], uint32(actionOf(m)))
	le.PutUint64(b[48:], uint64(c.size()))
	le.PutUint32(b[56:], uint32(proto.AttrNormal))
	le.PutUint64(b[64:], 1)
	le.PutUint64(b[72:], 2)
	return c.End(m, len(msg), AsAsked)
}

// actionOf is what m, a CREATE, does.
func actionOf(m *Message) proto.CreateAction {
	if proto.Disposition(le.Uint32(m.Body[36:])) == proto.DispositionCreate {
		return proto.ActionCreated
	}
	return proto.ActionOpened
}

// period is the number of bytes after which the file's content repeats: a prime, so that a request with an
// offset wrong by a round number reads other bytes than it expects.
const period = 65521

// At is the byte at offset off of the file.
func At(off int64) byte {
	x := off % period
	return byte(x*7 + x>>8)
}

// pattern is a part of the file longer than any READ, made once.
var pattern = sync.OnceValue(func() []byte {
	b := make([]byte, 8<<20+period)
	for i := range b {
		b[i] = At(int64(i))
	}
	return b
})

// Range returns the range of m, a READ, within the file.
func (c *Conn) Range(m *Message) (off int64, n int) {
	off, n = int64(le.Uint64(m.Body[8:])), int(le.Uint32(m.Body[4:]))
	return off, int(max(0, min(int64(n), c.size()-off)))
}

func (c *Conn) read(m *Message) error {
	off, n := c.Range(m)
	if n == 0 {
		return c.Refuse(m, proto.StatusEndOfFile)
	}
	msg := c.Begin(m, 0, 16+n)
	b := msg[proto.HeaderSize:]
	clear(b[:16])
	b[0], b[2] = 17, proto.ReadResponsePrefix
	le.PutUint32(b[4:], uint32(n))
	if !c.S.Unfilled {
		copy(b[16:], pattern()[off%period:])
	}
	return c.End(m, len(msg), AsAsked)
}

// Context is the client's side of the login: one token, and the session key Key.
type Context struct{ done bool }

// Start begins an authentication.
func Start() *Context { return &Context{} }

// OID is a mechanism that does not exist.
func (*Context) OID() string { return "1.3.6.1.4.1.99999.1" }

// Step sends its one token.
func (x *Context) Step(_ context.Context, in []byte) ([]byte, error) {
	if x.done {
		return nil, nil
	}
	x.done = true
	return []byte("let me in"), nil
}

// Done is true after it.
func (x *Context) Done() bool { return x.done }

// SessionKey is Key.
func (*Context) SessionKey() []byte { return Key() }

// MIC is none.
func (*Context) MIC([]byte) ([]byte, error) { return nil, nil }

// VerifyMIC accepts anything.
func (*Context) VerifyMIC(_, _ []byte) error { return nil }
