// Package ntlm is the client's side of NTLMv2 (MS-NLMP): it takes a password or its NT hash and yields a
// session key. NTLMv1 and LM are never used.
package ntlm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"
)

// OID identifies NTLM in SPNEGO.
const OID = "1.3.6.1.4.1.311.2.2.10"

// ErrChallenge is matched by every error in the server's message: malformed, or without NTLMv2 and a 128-bit
// key.
var ErrChallenge = errors.New("ntlm: bad challenge from the server")

// ErrState is matched when a context gets more messages than the mechanism has, which a server can cause.
var ErrState = errors.New("ntlm: no further step")

// ErrMIC is returned when the server's integrity check is wrong.
var ErrMIC = errors.New("ntlm: wrong message integrity code")

// Config holds the credentials and the target.
type Config struct {
	// User is the account's name. "" logs on anonymously.
	User string
	// Password is ignored when Hash is set.
	Password string
	// Hash is the NT hash, the MD4 of the password in UTF-16: 16 bytes, or nil.
	Hash []byte
	// Domain of the account; "" lets the server choose.
	Domain string
	// Workstation is the client's name for the server's log; may be "".
	Workstation string
	// Target is the service to log on to, such as "cifs/server"; "" leaves it out. A server that checks it
	// refuses credentials relayed from elsewhere.
	Target string
}

// Context is one authentication. It is used once, by one goroutine at a time.
type Context struct {
	cfg       Config
	now       func() time.Time
	random    func([]byte)
	state     state
	negotiate []byte
	exported  [16]byte
	sealing   sealing
}

type state int

const (
	stateStart state = iota
	stateNegotiated
	stateDone
)

// New starts an authentication. It panics when cfg.Hash is neither nil nor 16 bytes long.
func New(cfg Config) *Context {
	if cfg.Hash != nil && len(cfg.Hash) != 16 {
		panic("ntlm: an NT hash has 16 bytes")
	}
	return &Context{cfg: cfg, now: time.Now, random: func(b []byte) {
		rand.Read(b) // never fails: the runtime ends the process instead
	}}
}

// OID is [OID].
func (c *Context) OID() string { return OID }

// Step takes the server's message, nil at first, and returns ours. There are two steps.
// The errors match [ErrChallenge] and [ErrState].
func (c *Context) Step(_ context.Context, in []byte) ([]byte, error) {
	switch c.state {
	case stateStart:
		if len(in) != 0 {
			return nil, fmt.Errorf("%w: a message before the first of ours", ErrChallenge)
		}
		c.negotiate = appendNegotiate(nil)
		c.state = stateNegotiated
		return c.negotiate, nil
	case stateNegotiated:
		out, err := c.authenticate(in)
		if err != nil {
			return nil, err
		}
		c.state = stateDone
		return out, nil
	}
	return nil, ErrState
}

// Done reports whether both steps have been taken: the session key exists. The server may still refuse the
// credentials.
func (c *Context) Done() bool { return c.state == stateDone }

// Anonymous reports whether this logs on without credentials.
func (c *Context) Anonymous() bool { return c.cfg.User == "" }

// SessionKey is the exported session key, 16 bytes, after Done; nil before, and for an anonymous logon, whose
// key is public.
func (c *Context) SessionKey() []byte {
	if c.state != stateDone || c.Anonymous() {
		return nil
	}
	return append([]byte(nil), c.exported[:]...)
}

// MIC signs data for SPNEGO (MS-NLMP 3.4.4.2); nil for an anonymous logon. It is for one
// message a context.
func (c *Context) MIC(data []byte) ([]byte, error) {
	if c.state != stateDone {
		return nil, ErrState
	}
	if c.Anonymous() {
		return nil, nil
	}
	return c.sealing.sign(clientToServer, c.exported, data), nil
}

// VerifyMIC verifies the server's signature of data. The error is [ErrMIC].
func (c *Context) VerifyMIC(data, mic []byte) error {
	if c.state != stateDone {
		return ErrState
	}
	if c.Anonymous() {
		return nil
	}
	return c.sealing.verify(c.exported, data, mic)
}
