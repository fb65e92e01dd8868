package script

import (
	"bytes"

	"github.com/tarn-go/tarn/smb/internal/crypt"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// Mechanism is the server's side of one login.
type Mechanism interface {
	// OID is the mechanism's object identifier, tag and length included.
	OID() string
	// Accept gets the body of a SESSION_SETUP, which contains the client's token. key is nil while the client has to send more.
	Accept(body []byte) (token, key []byte, err error)
}

// States of SPNEGO (RFC 4178 4.2.2).
const (
	NoState          = -1
	AcceptCompleted  = 0
	AcceptIncomplete = 1
	Rejected         = 2
	RequestMIC       = 3
)

// Answer is an answer to SESSION_SETUP.
type Answer struct {
	Status   proto.Status
	Flags    proto.SessionFlags
	State    int    // of SPNEGO
	OID      string // of the mechanism that is chosen, as from Mechanism.OID; "": none
	Token    []byte // the mechanism's
	MIC      []byte // of SPNEGO's list of mechanisms
	Blob     []byte // not nil: in place of SPNEGO's token
	Key      []byte // of the session; nil: it gets none
	Security Security
}

func (s *Server) newMechanism() Mechanism {
	switch {
	case s.NewMechanism != nil:
		return s.NewMechanism()
	case s.Account != nil:
		return s.Account.NewLogin()
	}
	return nil
}

func (c *Conn) login(m *Message) error {
	a := Answer{Key: Key()}
	if c.mechanism == nil {
		c.mechanism, c.step = c.S.newMechanism(), 0
	}
	if c.mechanism != nil {
		var err error
		if a.Token, a.Key, err = c.mechanism.Accept(m.Body); err != nil && c.S.Answer == nil {
			return err
		}
		if c.step == 0 {
			a.OID = c.mechanism.OID()
		}
		if a.Key == nil && err == nil {
			a.Status, a.State = proto.StatusMoreProcessingRequired, AcceptIncomplete
		}
	}
	switch {
	case a.Status != 0:
	case c.S.Guest:
		a.Flags = proto.SessionGuest
	case c.S.Sealed:
		a.Flags = proto.SessionEncrypt
	}
	if c.S.Answer != nil {
		c.S.Answer(c, c.step, &a)
	}
	c.step++
	c.session = Session
	more := a.Status == proto.StatusMoreProcessingRequired
	if !more {
		c.mechanism = nil
		if err := c.establish(&a); err != nil {
			return err
		}
	}
	token := a.spnego()
	body := append([]byte{9, 0, byte(a.Flags), 0, proto.HeaderSize + 8, 0, byte(len(token)), byte(len(token) >> 8)}, token...)
	msg := c.Begin(m, a.Status, len(body))
	copy(msg[proto.HeaderSize:], body)
	if more {
		c.preauth.Update(msg)
	}
	return c.End(m, len(msg), a.Security)
}

// establish makes the keys of the session that a completes, unless it has them: they stay the same (3.3.5.5.3).
func (c *Conn) establish(a *Answer) error {
	again := c.setUp
	c.setUp = true
	if again || len(a.Key) == 0 || c.S.Guest {
		return nil
	}
	keys := crypt.DeriveKeys(c.dialect(), c.S.Cipher, a.Key, &c.preauth)
	signing := c.signing
	switch d := c.dialect(); {
	case d < proto.Dialect300:
		signing = proto.SigningHMACSHA256
	case d < proto.Dialect311:
		signing = proto.SigningAESCMAC
	}
	var err error
	if c.signer, err = crypt.NewSigner(signing, keys.Signing); err != nil || c.S.Cipher == 0 {
		return err
	}
	// The server's directions are the client's reversed.
	if c.sealer, err = crypt.NewSealer(c.S.Cipher, keys.Decrypt); err != nil {
		return err
	}
	c.opener, err = crypt.NewOpener(c.S.Cipher, keys.Encrypt)
	return err
}

// spnego is the acceptor's token of SPNEGO.
func (a *Answer) spnego() []byte {
	if a.Blob != nil {
		return a.Blob
	}
	var fields [][]byte
	if a.State != NoState {
		fields = append(fields, der(0xa0, []byte{0x0a, 1, byte(a.State)}))
	}
	if a.OID != "" {
		fields = append(fields, der(0xa1, []byte(a.OID)))
	}
	if a.Token != nil {
		fields = append(fields, der(0xa2, der(4, a.Token)))
	}
	if a.MIC != nil {
		fields = append(fields, der(0xa3, der(4, a.MIC)))
	}
	return der(0xa1, der(0x30, fields...))
}

// offer is SPNEGO's first token, with one mechanism.
func offer(oid string) []byte {
	list := der(0xa0, der(0x30, []byte(oid)))
	return der(0x60, []byte("\x06\x06\x2b\x06\x01\x05\x05\x02"), der(0xa0, der(0x30, list)))
}

func der(tag byte, parts ...[]byte) []byte {
	content := bytes.Join(parts, nil)
	n := len(content)
	switch {
	case n < 0x80:
		return append([]byte{tag, byte(n)}, content...)
	case n < 0x100:
		return append([]byte{tag, 0x81, byte(n)}, content...)
	}
	return append([]byte{tag, 0x82, byte(n >> 8), byte(n)}, content...)
}
