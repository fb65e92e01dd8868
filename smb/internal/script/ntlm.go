package script

import (
	"bytes"
	"crypto/hmac"
	"crypto/md5"
	"crypto/rc4"
	"errors"
	"strings"
	"time"

	"github.com/tarn-go/tarn/smb/internal/ntlm"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// Account is a user who logs in with NTLM through SPNEGO.
type Account struct{ User, Password string }

var errLogin = errors.New("script: the client cannot be logged in")

// offers are the algorithms in a client's negotiate contexts (MS-SMB2 2.2.3.1).
type offers struct {
	ciphers []proto.Cipher
	signers []proto.SigningAlgorithm // none: the client knows no such context
}

// readOffers reads the negotiate contexts of m, a NEGOTIATE of 3.1.1.
func readOffers(m *Message) (o offers) {
	msg := m.Body
	off, count := int(le.Uint32(msg[28:]))-proto.HeaderSize, int(le.Uint16(msg[32:]))
	for range count {
		if off < 0 || off+8 > len(msg) {
			return o
		}
		kind, n := le.Uint16(msg[off:]), int(le.Uint16(msg[off+2:]))
		if off+8+n > len(msg) || n < 2 {
			return o
		}
		for b := msg[off+10 : off+8+n]; len(b) >= 2; b = b[2:] {
			switch kind {
			case 2:
				o.ciphers = append(o.ciphers, proto.Cipher(le.Uint16(b)))
			case 8:
				o.signers = append(o.signers, proto.SigningAlgorithm(le.Uint16(b)))
			}
		}
		off += (8 + n + 7) &^ 7
	}
	return o
}

// ntlmLogin is the login of the account's user.
type ntlmLogin struct {
	account   *Account
	challenge []byte
}

// NewLogin begins a login by NTLM.
func (a *Account) NewLogin() Mechanism { return &ntlmLogin{account: a} }

func (*ntlmLogin) OID() string { return oidNTLM }

func (l *ntlmLogin) Accept(body []byte) (token, key []byte, err error) {
	if at := bytes.Index(body, []byte("NTLMSSP\x00\x03\x00\x00\x00")); at >= 0 {
		key, err = l.account.prove(body[at:], l.challenge)
		return nil, key, err
	}
	l.challenge = challenge()
	return l.challenge, nil, nil
}

// prove checks the client's proof (MS-NLMP 3.3.2) and returns the session key.
func (a *Account) prove(auth, challenge []byte) ([]byte, error) {
	if len(auth) < 64 {
		return nil, errLogin
	}
	field := func(i int) []byte {
		n, off := int64(le.Uint16(auth[12+8*i:])), int64(le.Uint32(auth[16+8*i:]))
		if off+n > int64(len(auth)) {
			return nil // a test changed the message on its way
		}
		return auth[off : off+n]
	}
	response, domain, key := field(1), proto.DecodeUTF16(field(2)), field(5)
	if proto.DecodeUTF16(field(3)) != a.User || len(response) < 16 || len(key) != 16 || len(challenge) < 32 {
		return nil, errLogin
	}
	owf := mac(ntlm.NTHash(a.Password), proto.AppendUTF16(nil, strings.ToUpper(a.User)+domain))
	if !hmac.Equal(response[:16], mac(owf, challenge[24:32], response[16:])) {
		return nil, errLogin
	}
	rc, err := rc4.NewCipher(mac(owf, response[:16]))
	if err != nil {
		return nil, err
	}
	exported := make([]byte, 16)
	rc.XORKeyStream(exported, key)
	return exported, nil
}

func mac(key []byte, parts ...[]byte) []byte {
	m := hmac.New(md5.New, key)
	for _, p := range parts {
		m.Write(p)
	}
	return m.Sum(nil)
}

const oidNTLM = "\x06\x0a\x2b\x06\x01\x04\x01\x82\x37\x02\x02\x0a"

// challenge is NTLM's CHALLENGE_MESSAGE.
func challenge() []byte {
	target := []byte{2, 0, 6, 0, 'S', 0, 'R', 0, 'V', 0, 1, 0, 6, 0, 'S', 0, 'R', 0, 'V', 0, 7, 0, 8, 0}
	target = le.AppendUint64(target, uint64(proto.NewFiletime(time.Now())))
	target = append(target, 0, 0, 0, 0)
	b := append([]byte("NTLMSSP\x00"), 2, 0, 0, 0)
	b = append(b, 6, 0, 6, 0, 56, 0, 0, 0)
	b = le.AppendUint32(b, 0xe28a8215)
	b = append(b, "nonceses"...)
	b = append(b, make([]byte, 8)...)
	b = le.AppendUint16(b, uint16(len(target)))
	b = le.AppendUint16(b, uint16(len(target)))
	b = le.AppendUint32(b, 62)
	b = append(b, 6, 1, 0, 0, 0, 0, 0, 15)
	b = append(b, 'S', 0, 'R', 0, 'V', 0)
	return append(b, target...)
}
