package ntlm

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/rc4"
	"strings"
	"time"

	"golang.org/x/crypto/md4" //lint:ignore SA1019 NTLM is defined on MD4 (MS-NLMP 3.3.2)

	"github.com/tarn-go/tarn/smb/internal/proto"
)

func utf16le(s string) []byte { return proto.AppendUTF16(nil, s) }

// NTHash is the NT hash of a password: the MD4 of its UTF-16LE form (MS-NLMP 3.3.1).
func NTHash(password string) []byte {
	h := md4.New()
	h.Write(utf16le(password))
	return h.Sum(nil)
}

func hmacMD5(key []byte, parts ...[]byte) []byte {
	m := hmac.New(md5.New, key)
	for _, p := range parts {
		m.Write(p)
	}
	return m.Sum(nil)
}

// ntowf is NTLMv2's key made of the user and the password (MS-NLMP 3.3.2).
func (c *Context) ntowf() []byte {
	hash := c.cfg.Hash
	if hash == nil {
		hash = NTHash(c.cfg.Password)
	}
	return hmacMD5(hash, utf16le(strings.ToUpper(c.cfg.User)+c.cfg.Domain))
}

// authenticate answers the server's challenge (MS-NLMP 3.1.5.1.2).
func (c *Context) authenticate(in []byte) ([]byte, error) {
	ch, err := decodeChallenge(in)
	if err != nil {
		return nil, err
	}
	flags := ch.flags & flagsWanted
	f := fields{
		domain:      utf16le(c.cfg.Domain),
		user:        utf16le(c.cfg.User),
		workstation: utf16le(c.cfg.Workstation),
	}
	base := make([]byte, 16) // a key of zeros: anonymous
	withMIC := false
	if c.Anonymous() {
		flags |= flagAnonymous
		f.lm, f.domain = []byte{0}, nil
	} else {
		info, clock, err := c.targetInfo(ch.target)
		if err != nil {
			return nil, err
		}
		withMIC = clock != 0
		f.lm, f.nt, base = c.responses(ch.nonce, info, clock)
	}
	if flags&flagKeyExchange != 0 {
		c.random(c.exported[:])
		f.key = make([]byte, 16)
		rc, err := rc4.NewCipher(base)
		if err != nil {
			return nil, err
		}
		rc.XORKeyStream(f.key, c.exported[:])
	} else {
		c.exported = [16]byte(base)
	}
	c.sealing.keyExchange = flags&flagKeyExchange != 0
	out := appendAuthenticate(nil, f, flags)
	if withMIC {
		copy(out[micOffset:], hmacMD5(c.exported[:], c.negotiate, in, out))
	}
	return out, nil
}

// responses are the NTLMv2 responses and the session base key (MS-NLMP 3.3.2).
func (c *Context) responses(nonce [8]byte, info []byte, clock uint64) (lm, nt, base []byte) {
	key := c.ntowf()
	var ours [8]byte
	c.random(ours[:])
	now := clock
	if now == 0 {
		now = filetime(c.now())
	}
	blob := make([]byte, 0, 32+len(info))
	blob = append(blob, 1, 1, 0, 0, 0, 0, 0, 0)
	blob = le.AppendUint64(blob, now)
	blob = append(blob, ours[:]...)
	blob = append(blob, 0, 0, 0, 0)
	blob = append(blob, info...)
	blob = append(blob, 0, 0, 0, 0)
	proof := hmacMD5(key, nonce[:], blob)
	base = hmacMD5(key, proof)
	nt = append(proof, blob...)
	if clock != 0 {
		return make([]byte, 24), nt, base // no LMv2 response when there is a MIC
	}
	return append(hmacMD5(key, nonce[:], ours[:]), ours[:]...), nt, base
}

func filetime(t time.Time) uint64 { return uint64(proto.NewFiletime(t)) }
