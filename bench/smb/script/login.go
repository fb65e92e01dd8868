package script

import (
	"bytes"
	"crypto/hmac"
	"crypto/md5"
	"crypto/rc4"
	"errors"
	"strings"
	"time"

	"github.com/tarn-go/tarn/smb/internal/crypt"
	"github.com/tarn-go/tarn/smb/internal/ntlm"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

var errLogin = errors.New("script: the client cannot be logged in")

// negotiate chooses 3.1.1, AES-128-GCM and the best signing the client has.
func (s *server) negotiate(dst []byte, start int, msg []byte) ([]byte, error) {
	body := msg[proto.HeaderSize:]
	s.choose(msg, int(le.Uint32(body[28:])), int(le.Uint16(body[32:])))
	if s.cipher != proto.CipherAES128GCM {
		return nil, errLogin
	}
	mode := proto.SigningEnabled
	if s.mode == Signed {
		mode |= proto.SigningRequired
	}
	contexts := 2
	if s.gmac {
		contexts = 3
	}
	token := offer()
	dst = le.AppendUint16(dst, 65)
	dst = le.AppendUint16(dst, uint16(mode))
	dst = le.AppendUint16(dst, uint16(proto.Dialect311))
	dst = le.AppendUint16(dst, uint16(contexts))
	dst = append(dst, "0123456789abcdef"...)
	dst = le.AppendUint32(dst, uint32(proto.CapLargeMTU))
	for range 3 {
		dst = le.AppendUint32(dst, MaxIO)
	}
	dst = le.AppendUint64(dst, uint64(proto.NewFiletime(time.Now())))
	dst = le.AppendUint64(dst, 0)
	dst = le.AppendUint16(dst, proto.HeaderSize+64)
	dst = le.AppendUint16(dst, uint16(len(token)))
	at := (64 + len(token) + 7) &^ 7
	dst = le.AppendUint32(dst, uint32(proto.HeaderSize+at))
	dst = append(dst, token...)
	dst = align(dst, start)
	dst = context(dst, start, 1, append([]byte{1, 0, 8, 0, 1, 0}, "saltsalt"...))
	dst = context(dst, start, 2, []byte{1, 0, byte(s.cipher), 0})
	if s.gmac {
		dst = context(dst, start, 8, []byte{1, 0, byte(s.algorithm), 0})
	}
	s.preauth.Update(msg)
	s.preauth.Update(dst[start:])
	return dst, nil
}

// choose reads the client's contexts.
func (s *server) choose(msg []byte, off, count int) {
	s.algorithm = proto.SigningAESCMAC
	for range count {
		if off+8 > len(msg) {
			return
		}
		kind, n := le.Uint16(msg[off:]), int(le.Uint16(msg[off+2:]))
		data := msg[off+8 : off+8+n]
		switch kind {
		case 2:
			for b := data[2:]; len(b) >= 2; b = b[2:] {
				if proto.Cipher(le.Uint16(b)) == proto.CipherAES128GCM {
					s.cipher = proto.CipherAES128GCM
				}
			}
		case 8:
			s.gmac = true
			for b := data[2:]; len(b) >= 2; b = b[2:] {
				if proto.SigningAlgorithm(le.Uint16(b)) == proto.SigningAESGMAC {
					s.algorithm = proto.SigningAESGMAC
				}
			}
		}
		off += (8 + n + 7) &^ 7
	}
}

func context(dst []byte, start int, kind byte, data []byte) []byte {
	dst = align(dst, start)
	dst = append(dst, kind, 0, byte(len(data)), 0, 0, 0, 0, 0)
	return append(dst, data...)
}

func align(dst []byte, start int) []byte {
	for (len(dst)-start)&7 != 0 {
		dst = append(dst, 0)
	}
	return dst
}

// sessionSetup logs the one user in.
func (s *server) sessionSetup(dst []byte, start int, msg []byte) ([]byte, error) {
	s.preauth.Update(msg)
	le.PutUint64(dst[start+proto.OffsetSessionID:], 0x1234)
	if at := bytes.Index(msg, []byte("NTLMSSP\x00\x03\x00\x00\x00")); at >= 0 {
		if err := s.finish(msg[at:]); err != nil {
			return nil, err
		}
		flags := byte(0)
		if s.mode == Encrypted {
			flags = byte(proto.SessionEncrypt)
		}
		return setupResponse(dst, flags, []byte{0xa1, 7, 0x30, 5, 0xa0, 3, 0x0a, 1, 0}), nil
	}
	le.PutUint32(dst[start+proto.OffsetStatus:], uint32(proto.StatusMoreProcessingRequired))
	s.challenge = challenge()
	state := der(0xa0, []byte{0x0a, 1, 1})
	mech := der(0xa1, []byte(oidNTLM))
	token := der(0xa2, der(4, s.challenge))
	dst = setupResponse(dst, 0, der(0xa1, der(0x30, state, mech, token)))
	s.preauth.Update(dst[start:])
	return dst, nil
}

func setupResponse(dst []byte, flags byte, token []byte) []byte {
	dst = append(dst, 9, 0, flags, 0)
	dst = le.AppendUint16(dst, proto.HeaderSize+8)
	dst = le.AppendUint16(dst, uint16(len(token)))
	return append(dst, token...)
}

// finish checks the client's proof and makes the keys of the session.
func (s *server) finish(auth []byte) error {
	field := func(i int) []byte {
		n, off := le.Uint16(auth[12+8*i:]), le.Uint32(auth[16+8*i:])
		return auth[off : off+uint32(n)]
	}
	response, domain, key := field(1), proto.DecodeUTF16(field(2)), field(5)
	if proto.DecodeUTF16(field(3)) != User || len(response) < 16 || len(key) != 16 {
		return errLogin
	}
	owf := mac(ntlm.NTHash(Password), proto.AppendUTF16(nil, strings.ToUpper(User)+domain))
	if !hmac.Equal(response[:16], mac(owf, s.challenge[24:32], response[16:])) {
		return errLogin
	}
	rc, err := rc4.NewCipher(mac(owf, response[:16]))
	if err != nil {
		return err
	}
	exported := make([]byte, 16)
	rc.XORKeyStream(exported, key)
	k := crypt.DeriveKeys(proto.Dialect311, s.cipher, exported, &s.preauth)
	if s.signer, err = crypt.NewSigner(s.algorithm, k.Signing); err != nil {
		return err
	}
	// the server's keys are the client's the other way round
	if s.sealer, err = crypt.NewSealer(s.cipher, k.Decrypt); err != nil {
		return err
	}
	s.opener, err = crypt.NewOpener(s.cipher, k.Encrypt)
	return err
}

func mac(key []byte, parts ...[]byte) []byte {
	m := hmac.New(md5.New, key)
	for _, p := range parts {
		m.Write(p)
	}
	return m.Sum(nil)
}

const (
	oidNTLM   = "\x06\x0a\x2b\x06\x01\x04\x01\x82\x37\x02\x02\x0a"
	oidSPNEGO = "\x06\x06\x2b\x06\x01\x05\x05\x02"
)

// offer is SPNEGO's first token, with NTLM alone.
func offer() []byte {
	list := der(0xa0, der(0x30, []byte(oidNTLM)))
	return der(0x60, []byte(oidSPNEGO), der(0xa0, der(0x30, list)))
}

func der(tag byte, parts ...[]byte) []byte {
	content := bytes.Join(parts, nil)
	if len(content) < 0x80 {
		return append([]byte{tag, byte(len(content))}, content...)
	}
	return append([]byte{tag, 0x81, byte(len(content))}, content...)
}

// challenge is NTLM's CHALLENGE_MESSAGE.
func challenge() []byte {
	target := []byte{2, 0, 6, 0, 'S', 0, 'R', 0, 'V', 0, 1, 0, 6, 0, 'S', 0, 'R', 0, 'V', 0, 7, 0, 8, 0}
	target = le.AppendUint64(target, uint64(proto.NewFiletime(time.Now())))
	target = append(target, 0, 0, 0, 0)
	b := append([]byte("NTLMSSP\x00"), 2, 0, 0, 0)
	b = append(b, 6, 0, 6, 0, 56, 0, 0, 0)
	b = le.AppendUint32(b, 0xe28a8215)
	b = append(b, "nonceses"...)
	b = append(b, zeros(8)...)
	b = le.AppendUint16(b, uint16(len(target)))
	b = le.AppendUint16(b, uint16(len(target)))
	b = le.AppendUint32(b, 62)
	b = append(b, 6, 1, 0, 0, 0, 0, 0, 15)
	b = append(b, 'S', 0, 'R', 0, 'V', 0)
	return append(b, target...)
}
