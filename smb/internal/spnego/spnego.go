// Package spnego is the initiator's side of SPNEGO (RFC 4178, MS-SPNG) with one mechanism: it wraps the
// mechanism's tokens, and protects the choice of the mechanism with its signature where it can sign.
package spnego

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

var (
	// ErrToken is matched when the server sent a malformed or unexpected token.
	ErrToken = errors.New("spnego: bad token from the server")
	// ErrMechanism is matched when the server does not support the mechanism.
	ErrMechanism = errors.New("spnego: server does not offer the authentication mechanism")
	// ErrRejected is matched when the server refused the credentials in a token.
	ErrRejected = errors.New("spnego: server rejected the authentication")
)

// Mechanism is one running authentication with one mechanism (RFC 2743). It is used by one goroutine at a time.
type Mechanism interface {
	// OID is the mechanism's object identifier, dotted: "1.3.6.1.4.1.311.2.2.10" is NTLM.
	OID() string
	// Step takes the server's token, nil at first, and returns the next one to send, nil when there is none.
	// It borrows in; out belongs to the caller.
	Step(ctx context.Context, in []byte) (out []byte, err error)
	// Done reports whether this side needs nothing more.
	Done() bool
	// SessionKey is the session key, at least 16 bytes, valid after Done; nil for an anonymous user.
	SessionKey() []byte
	// MIC returns the mechanism's integrity code over data, after Done; nil, nil when it has none.
	MIC(data []byte) ([]byte, error)
	// VerifyMIC checks the server's code over data, in constant time.
	VerifyMIC(data, mic []byte) error
}

// Kerberos has a second identifier, which Windows uses because of a mistake of 1999 (MS-SPNG 3.1.5.2 note).
const (
	oidKerberos   = "1.2.840.113554.1.2.2"
	oidKerberosMS = "1.2.840.48018.1.2.2"
)

// Client negotiates one session setup. It is used once, by one goroutine at a time.
type Client struct {
	mech    Mechanism
	list    []byte
	started bool
	micSent bool
	micDue  bool // the server has asked for signatures of the list, and so has to send its own
	done    bool
}

// New negotiates with mech.
func New(mech Mechanism) *Client {
	return &Client{mech: mech, list: mechList(mech.OID())}
}

// Done reports whether the negotiation is complete on both sides.
func (c *Client) Done() bool { return c.done }

// SessionKey is the mechanism's session key, after Done; nil before and when it has none.
func (c *Client) SessionKey() []byte {
	if !c.done {
		return nil
	}
	return c.mech.SessionKey()
}

// Step takes the server's token and returns the next token to send, nil when there is none. At first in is
// the token of the NEGOTIATE response, which may be empty. The errors match [ErrToken], [ErrMechanism],
// [ErrRejected], or are the mechanism's own.
func (c *Client) Step(ctx context.Context, in []byte) ([]byte, error) {
	switch {
	case c.done:
		return nil, fmt.Errorf("%w: one after the last", ErrToken)
	case !c.started:
		return c.start(ctx, in)
	case len(in) == 0:
		// some servers end with an empty token, in particular for a guest
		if !c.mech.Done() || c.micDue {
			return nil, fmt.Errorf("%w: empty before the negotiation is done", ErrToken)
		}
		c.done = true
		return nil, nil
	}
	r, err := decodeResponse(in)
	if err != nil {
		return nil, err
	}
	if r.state == reject {
		return nil, ErrRejected
	}
	if r.mech != nil && !c.speaks(r.mech) {
		return nil, fmt.Errorf("%w: it chose another mechanism", ErrMechanism)
	}
	return c.advance(ctx, r)
}

func (c *Client) start(ctx context.Context, in []byte) ([]byte, error) {
	if len(in) > 0 {
		offered, any := false, false
		err := decodeOffer(in, func(oid []byte) {
			any = true
			offered = offered || c.speaks(oid)
		})
		if err != nil {
			return nil, err
		}
		if any && !offered {
			return nil, fmt.Errorf("%w (%s)", ErrMechanism, c.mech.OID())
		}
	}
	token, err := c.mech.Step(ctx, nil)
	if err != nil {
		return nil, err
	}
	c.started = true
	return encodeInit(c.list, token), nil
}

func (c *Client) advance(ctx context.Context, r response) ([]byte, error) {
	var token []byte
	var err error
	if len(r.token) > 0 || !c.mech.Done() {
		if c.mech.Done() {
			return nil, fmt.Errorf("%w: one after the mechanism's last", ErrToken)
		}
		if token, err = c.mech.Step(ctx, r.token); err != nil {
			return nil, err
		}
	}
	c.micDue = c.micDue || r.state == requestMIC
	if len(r.mic) > 0 {
		if !c.mech.Done() {
			return nil, fmt.Errorf("%w: signed before there is a key", ErrToken)
		}
		if err := c.mech.VerifyMIC(c.list, r.mic); err != nil {
			return nil, err
		}
		c.micDue = false
	}
	if r.state == acceptCompleted {
		if !c.mech.Done() || len(token) > 0 {
			return nil, fmt.Errorf("%w: accepted before the mechanism is done", ErrToken)
		}
		if c.micDue {
			return nil, fmt.Errorf("%w: accepted without the signature that it asked for", ErrToken)
		}
		c.done = true
		return nil, nil
	}
	if r.state == requestMIC || !c.micSent {
		mic, err := c.sign()
		if err != nil {
			return nil, err
		}
		if len(token) == 0 && len(mic) == 0 {
			return nil, fmt.Errorf("%w: no token left to answer it", ErrToken)
		}
		return encodeResponse(token, mic), nil
	}
	if len(token) == 0 {
		return nil, fmt.Errorf("%w: no token left to answer it", ErrToken)
	}
	return encodeResponse(token, nil), nil
}

// sign returns the signature of our list of mechanisms, once; nil before there is a key.
func (c *Client) sign() ([]byte, error) {
	if !c.mech.Done() || c.micSent {
		return nil, nil
	}
	c.micSent = true
	return c.mech.MIC(c.list)
}

// speaks reports whether oid, an OBJECT IDENTIFIER in DER, identifies the mechanism.
func (c *Client) speaks(oid []byte) bool {
	name := c.mech.OID()
	if bytes.Equal(oid, encodeOID(name)) {
		return true
	}
	return name == oidKerberos && bytes.Equal(oid, encodeOID(oidKerberosMS))
}
