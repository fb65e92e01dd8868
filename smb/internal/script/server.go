// Package script is an SMB server in memory for tests, which a test can make behave correctly or not. It
// supports every dialect, plain, signed and encrypted, serves one file whose bytes depend on their offsets,
// and allocates nothing for a READ, a WRITE or an ECHO.
package script

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"

	"github.com/tarn-go/tarn/smb/internal/crypt"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

var le = binary.LittleEndian

// Server holds the settings of its connections. It must not change while it serves.
type Server struct {
	Dialect proto.Dialect // 0: 3.1.1
	Cipher  proto.Cipher
	Signing proto.SigningAlgorithm
	Signed  bool // signing is required
	Sealed  bool // the session is encrypted
	Guest   bool // log in every user as a guest
	MaxIO   uint32
	Size    int64 // length of the file; 0: 1 GiB
	// Capabilities are granted besides those that the other settings bring.
	Capabilities proto.Capabilities
	// Account is the user who may log in, with NTLM; nil: every client, with the context of Start.
	Account *Account
	// NewMechanism begins a login; nil: by NTLM if Account is set.
	NewMechanism func() Mechanism
	// Answer may change the answer to the SESSION_SETUP number step, from 0, of one login. If it is set, the login of a client that
	// the mechanism refuses goes on, without a key.
	Answer func(c *Conn, step int, a *Answer)
	// Unfilled answers a READ with undefined content, for benchmarks of the client.
	Unfilled bool
	// Grant says how many credits to grant; nil: as many as requested.
	Grant func(asked uint16) uint16
	// Hook gets every request first. When it returns true, it has answered.
	Hook func(c *Conn, m *Message) bool
	// Spoil may change a message before it is signed or encrypted.
	Spoil func(msg []byte)
	// Override may protect a reply in another way than the session requires.
	Override func(cmd proto.Command) (Security, bool)
	// Mangle may change a message after it was signed or encrypted.
	Mangle func(frame []byte) []byte
	// Split may send a frame in two parts: n bytes, and the others when the channel is closed. nil: in one
	// part.
	Split func(frame []byte) (n int, rest <-chan struct{})
	// Slow may send a frame in parts of n bytes with pauses; 0: in one part.
	Slow func(frame []byte) (n int, pause time.Duration)
}

// Message is one request. It is valid until the hook returns.
type Message struct {
	proto.Header
	Body   []byte // behind the header
	Sealed bool
}

// Conn is one connection of a server.
type Conn struct {
	S       *Server
	nc      net.Conn
	mu      sync.Mutex // writing
	preauth crypt.Preauth
	session uint64
	setUp   bool
	caps    proto.Capabilities
	mode    proto.SecurityMode
	offered []byte // by the client's NEGOTIATE
	signer  crypt.Signer
	sealer  *crypt.Sealer
	opener  *crypt.Opener
	in, out []byte

	signing        proto.SigningAlgorithm
	answersSigning bool      // the client asked which one
	mechanism      Mechanism // of the login in progress
	step           int       // of the login in progress
	Written        int64     // bytes of WRITE received
}

// Session is the session id of every session.
const Session = 0x1122334455667788

// Tree is the tree id of every share.
const Tree = 7

// Key is the session key of [Context].
func Key() []byte { return []byte("0123456789abcdef") }

// Serve serves nc until it is closed.
func (s *Server) Serve(nc net.Conn) error {
	c := &Conn{S: s, nc: nc, in: make([]byte, 64<<10), out: make([]byte, 64<<10)}
	defer nc.Close()
	for {
		frame, err := c.readFrame()
		if err != nil {
			if err == io.EOF || err == io.ErrClosedPipe {
				return nil
			}
			return err
		}
		if err := c.frame(frame); err != nil {
			return err
		}
	}
}

// Dial serves one end of a pipe and returns the other.
func (s *Server) Dial(context.Context, string, string) (net.Conn, error) {
	a, b := net.Pipe()
	go s.Serve(b)
	return a, nil
}

func (c *Conn) readFrame() ([]byte, error) {
	if _, err := io.ReadFull(c.nc, c.in[:4]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(c.in))
	if need := n + crypt.Spare + 4; need > len(c.in) {
		c.in = make([]byte, 2*need)
	}
	// The length stays in front, so that the frame begins at in[4].
	_, err := io.ReadFull(c.nc, c.in[4:4+n])
	return c.in[4 : 4+n], err
}

func (c *Conn) frame(frame []byte) error {
	sealed := proto.Protocol(frame) == proto.ProtocolTransform
	if sealed {
		var err error
		if frame, err = c.opener.Open(c.in[4 : 4+len(frame)+crypt.Spare]); err != nil {
			return err
		}
	}
	e := proto.NewElements(frame)
	for e.Next() {
		h, err := proto.DecodeHeader(e.Message())
		if err != nil {
			return err
		}
		if h.Command == proto.CommandNegotiate || h.Command == proto.CommandSessionSetup {
			c.preauth.Update(e.Message())
		}
		m := Message{Header: h, Body: e.Message()[proto.HeaderSize:], Sealed: sealed}
		if c.S.Hook != nil {
			copied := m // m escapes to the hook; without a hook nothing is allocated
			if c.S.Hook(c, &copied) {
				continue
			}
		}
		if err := c.obey(&m); err != nil {
			return err
		}
	}
	return e.Err()
}

// Credits is how many credits to grant to m.
func (c *Conn) credits(m *Message) uint16 {
	if c.S.Grant != nil {
		return c.S.Grant(m.Credits)
	}
	return max(m.Credits, 1)
}

// Begin starts a reply to m in the connection's buffer, with space for n bytes of body, and returns the
// message: the header is filled in, the body is not cleared. It locks the connection.
func (c *Conn) Begin(m *Message, status proto.Status, n int) []byte {
	c.mu.Lock()
	const front = 4 + crypt.Overhead
	if need := front + proto.HeaderSize + n + crypt.Spare; need > len(c.out) {
		c.out = make([]byte, 2*need)
	}
	h := proto.Header{
		CreditCharge: m.CreditCharge, Status: status, Command: m.Command, Credits: c.credits(m),
		Flags: proto.FlagResponse, MessageID: m.MessageID, TreeID: m.TreeID, SessionID: c.session,
	}
	h.Append(c.out[:front])
	return c.out[front : front+proto.HeaderSize+n]
}

// Security is how a reply is protected.
type Security uint8

// AsAsked protects a reply like its request.
const (
	AsAsked Security = iota
	InClear
	SignedReply
	SealedReply
)

// End sends the message of Begin with n bytes of body, and unlocks the connection.
func (c *Conn) End(m *Message, n int, how Security) error {
	defer c.mu.Unlock()
	const front = 4 + crypt.Overhead
	msg := c.out[front : front+n]
	if how == AsAsked {
		switch {
		case m.Sealed:
			how = SealedReply
		case c.signer != nil && (m.Flags&proto.FlagSigned != 0 || m.Command == proto.CommandSessionSetup && c.setUp):
			how = SignedReply
		}
	}
	if c.S.Spoil != nil {
		c.S.Spoil(msg)
	}
	if c.S.Override != nil {
		if x, ok := c.S.Override(m.Command); ok {
			how = x
		}
	}
	frame := c.out[crypt.Overhead : front+n]
	switch how {
	case SignedReply:
		le.PutUint32(msg[proto.OffsetFlags:], le.Uint32(msg[proto.OffsetFlags:])|uint32(proto.FlagSigned))
		c.signer.Sign(msg, nil)
	case SealedReply:
		if err := c.sealer.Seal(c.out[4:front+n+crypt.Spare], Session); err != nil {
			return err
		}
		frame = c.out[:front+n]
	}
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	if c.S.Mangle != nil {
		frame = c.S.Mangle(frame)
	}
	if c.S.Split != nil {
		if n, rest := c.S.Split(frame); rest != nil {
			if _, err := c.nc.Write(frame[:n]); err != nil {
				return err
			}
			<-rest
			frame = frame[n:]
		}
	}
	if c.S.Slow != nil {
		if n, pause := c.S.Slow(frame); n > 0 {
			for ; len(frame) > n; frame = frame[n:] {
				if _, err := c.nc.Write(frame[:n]); err != nil {
					return err
				}
				<-time.After(pause)
			}
		}
	}
	_, err := c.nc.Write(frame)
	return err
}

// Raw sends bytes as they are.
func (c *Conn) Raw(b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.nc.Write(b)
	return err
}

// Reply sends a complete reply.
func (c *Conn) Reply(m *Message, status proto.Status, body []byte, how Security) error {
	msg := c.Begin(m, status, len(body))
	copy(msg[proto.HeaderSize:], body)
	return c.End(m, len(msg), how)
}

// Refuse sends an ERROR reply.
func (c *Conn) Refuse(m *Message, status proto.Status) error {
	return c.Reply(m, status, []byte{9, 0, 0, 0, 0, 0, 0, 0, 0}, AsAsked)
}

// Pend sends an interim reply.
func (c *Conn) Pend(m *Message, async uint64) error {
	msg := c.Begin(m, proto.StatusPending, 9)
	clear(msg[proto.HeaderSize:])
	msg[proto.HeaderSize] = 9
	le.PutUint32(msg[proto.OffsetFlags:], uint32(proto.FlagResponse|proto.FlagAsync))
	le.PutUint64(msg[32:], async)
	how := InClear
	if m.Sealed {
		how = SealedReply
	}
	return c.End(m, len(msg), how)
}

// Close closes the connection.
func (c *Conn) Close() { c.nc.Close() }

// DialTCP serves one end of a loopback connection and returns the other.
func (s *Server) DialTCP(ctx context.Context, _, _ string) (net.Conn, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		nc, err := l.Accept()
		l.Close() // only now: closing the listener resets a connection that waits to be accepted
		if err == nil {
			s.Serve(nc)
		}
	}()
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", l.Addr().String())
	if err != nil {
		l.Close()
	}
	return nc, err
}
