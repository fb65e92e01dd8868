package krb5

import (
	"context"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/crypto/etype"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/chksumtype"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// OID identifies Kerberos in SPNEGO (RFC 4121 1).
const OID = "1.2.840.113554.1.2.2"

type state int

const (
	stateStart state = iota
	stateWaiting
	stateDone
)

// securityContext is one authentication: it sends an AP-REQ and receives an AP-REP (RFC 4121 4.1).
type securityContext struct {
	ticket messages.Ticket
	key    types.EncryptionKey // of the ticket
	realm  string
	name   types.PrincipalName

	state state
	auth  types.Authenticator
	// session is the session key: the server's subkey, or ours when it sends none.
	session  types.EncryptionKey
	acceptor bool // the session key is the server's
}

// OID is [OID].
func (c *securityContext) OID() string { return OID }

// Done reports whether the server has proved that it has the ticket's key.
func (c *securityContext) Done() bool { return c.state == stateDone }

// Step makes the AP-REQ and then reads the AP-REP.
func (c *securityContext) Step(_ context.Context, in []byte) (_ []byte, err error) {
	defer refused(&err)
	switch c.state {
	case stateStart:
		out, err := c.request()
		if err == nil {
			c.state = stateWaiting
		}
		return out, err
	case stateWaiting:
		if err := c.reply(in); err != nil {
			return nil, err
		}
		c.state = stateDone
		return nil, nil
	}
	return nil, fmt.Errorf("%w: a token after the last", ErrServer)
}

// contextFlags request mutual authentication and the services that SMB uses the key for.
const contextFlags = gssapi.ContextFlagMutual | gssapi.ContextFlagReplay | gssapi.ContextFlagSequence |
	gssapi.ContextFlagConf | gssapi.ContextFlagInteg

// request is the first token (RFC 4121 4.1.1).
func (c *securityContext) request() ([]byte, error) {
	auth, err := types.NewAuthenticator(c.realm, c.name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTicket, err)
	}
	kind, err := crypto.GetEtype(c.key.KeyType)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTicket, err)
	}
	if err := auth.GenerateSeqNumberAndSubKey(c.key.KeyType, keySize(kind)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTicket, err)
	}
	sum := make([]byte, 24) // no channel bindings
	binary.LittleEndian.PutUint32(sum, 16)
	binary.LittleEndian.PutUint32(sum[20:], contextFlags)
	auth.Cksum = types.Checksum{CksumType: chksumtype.GSSAPI, Checksum: sum}
	req, err := messages.NewAPReq(c.ticket, c.key, auth)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTicket, err)
	}
	types.SetFlag(&req.APOptions, flags.APOptionMutualRequired)
	b, err := req.Marshal()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTicket, err)
	}
	c.auth, c.session = auth, auth.SubKey
	return frame(tokenRequest, b)
}

// reply checks that the AP-REP repeats our clock, and takes the server's subkey from it (RFC 4120 3.2.5).
func (c *securityContext) reply(in []byte) error {
	kind, b, err := unframe(in)
	if err != nil {
		return err
	}
	if kind == tokenError {
		var e messages.KRBError
		if err := e.Unmarshal(b); err != nil {
			return fmt.Errorf("%w: %w", ErrServer, err)
		}
		return fmt.Errorf("%w: %w", ErrServer, skewed(e))
	}
	if kind != tokenReply {
		return fmt.Errorf("%w: unknown kind of token", ErrServer)
	}
	var rep messages.APRep
	if err := rep.Unmarshal(b); err != nil {
		return fmt.Errorf("%w: %w", ErrServer, err)
	}
	part, err := c.decrypt(rep.EncPart)
	if err != nil {
		return err
	}
	if part.CTime.Unix() != c.auth.CTime.Unix() || part.Cusec != c.auth.Cusec {
		return fmt.Errorf("%w: it answers another request", ErrServer)
	}
	if len(part.Subkey.KeyValue) > 0 {
		kind, err := crypto.GetEtype(part.Subkey.KeyType)
		if err != nil || len(part.Subkey.KeyValue) != keySize(kind) {
			return fmt.Errorf("%w: unusable subkey", ErrServer)
		}
		c.session, c.acceptor = part.Subkey, true
	}
	return nil
}

// keySize is the bytes of a key. gokrb5 has the size of aes256-cts-hmac-sha384-192's integrity key in place of its key's (RFC 8009 5).
func keySize(e etype.EType) int {
	if e.GetETypeID() == etypeID.AES256_CTS_HMAC_SHA384_192 {
		return 32
	}
	return e.GetKeyByteSize()
}

func (c *securityContext) decrypt(data types.EncryptedData) (part messages.EncAPRepPart, err error) {
	if data.EType != c.key.KeyType {
		return part, fmt.Errorf("%w: encrypted with another type of key", ErrServer)
	}
	kind, err := crypto.GetEtype(c.key.KeyType)
	if err != nil {
		return part, fmt.Errorf("%w: %w", ErrServer, err)
	}
	// gokrb5 slices without a check
	if len(data.Cipher) < kind.GetConfounderByteSize()+kind.GetHMACBitLength()/8 {
		return part, fmt.Errorf("%w: truncated", ErrServer)
	}
	plain, err := crypto.DecryptEncPart(data, c.key, keyusage.AP_REP_ENCPART)
	if err != nil {
		return part, fmt.Errorf("%w: %w", ErrServer, err)
	}
	if err := part.Unmarshal(plain); err != nil {
		return part, fmt.Errorf("%w: %w", ErrServer, err)
	}
	return part, nil
}

// SessionKey is the session key, 16 or 32 bytes.
func (c *securityContext) SessionKey() []byte {
	if c.state != stateDone {
		return nil
	}
	return append([]byte(nil), c.session.KeyValue...)
}

// MIC signs data (RFC 4121 4.2.6.1); nil under RC4, which has another format.
func (c *securityContext) MIC(data []byte) (_ []byte, err error) {
	defer refused(&err)
	if c.state != stateDone {
		return nil, errors.New("krb5: no key yet")
	}
	if c.session.KeyType == etypeID.RC4_HMAC {
		return nil, nil
	}
	t := gssapi.MICToken{SndSeqNum: uint64(c.auth.SeqNumber), Payload: data}
	if c.acceptor {
		t.Flags = gssapi.MICTokenFlagAcceptorSubkey
	}
	if err := t.SetChecksum(c.session, keyusage.GSSAPI_INITIATOR_SIGN); err != nil {
		return nil, err
	}
	return t.Marshal()
}

// VerifyMIC verifies the server's signature of data. The error matches [ErrServer].
func (c *securityContext) VerifyMIC(data, mic []byte) (err error) {
	defer refused(&err)
	if c.state != stateDone {
		return fmt.Errorf("%w: signed before there is a key", ErrServer)
	}
	var t gssapi.MICToken
	if err := t.Unmarshal(mic, true); err != nil {
		return fmt.Errorf("%w: %w", ErrServer, err)
	}
	t.Payload = data
	if ok, err := t.Verify(c.session, keyusage.GSSAPI_ACCEPTOR_SIGN); !ok {
		return fmt.Errorf("%w: wrong signature: %w", ErrServer, err)
	}
	return nil
}

// Kinds of token (RFC 4121 4.1).
const (
	tokenRequest = 0x0100
	tokenReply   = 0x0200
	tokenError   = 0x0300
)

func kerberosOID() asn1.ObjectIdentifier { return asn1.ObjectIdentifier{1, 2, 840, 113554, 1, 2, 2} }

// frame adds the generic framing to a message.
func frame(kind uint16, b []byte) ([]byte, error) {
	oid, err := asn1.Marshal(kerberosOID())
	if err != nil {
		return nil, err
	}
	body := binary.BigEndian.AppendUint16(oid, kind)
	return asn1.Marshal(asn1.RawValue{Class: asn1.ClassApplication, IsCompound: true, Bytes: append(body, b...)})
}

// unframe removes the generic framing.
func unframe(in []byte) (kind uint16, b []byte, err error) {
	var outer asn1.RawValue
	rest, err := asn1.Unmarshal(in, &outer)
	if err != nil || len(rest) != 0 || outer.Class != asn1.ClassApplication || outer.Tag != 0 {
		return 0, nil, fmt.Errorf("%w: not a token", ErrServer)
	}
	var oid asn1.ObjectIdentifier
	b, err = asn1.Unmarshal(outer.Bytes, &oid)
	if err != nil || !oid.Equal(kerberosOID()) || len(b) < 2 {
		return 0, nil, fmt.Errorf("%w: not a token of Kerberos", ErrServer)
	}
	return binary.BigEndian.Uint16(b), b[2:], nil
}
