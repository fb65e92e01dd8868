package crypt

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

// Preauth is the running SHA-512 over the messages that set up a connection and a session (3.1.4.4.1 of the
// protocol's 3.1.1). Its zero value is the start of the chain; copying it forks the chain, as every
// SESSION_SETUP does.
type Preauth [sha512.Size]byte

// Update adds one complete message, given in pieces in order: with its header, without the direct-TCP length.
func (p *Preauth) Update(parts ...[]byte) {
	h := sha512.New()
	h.Write(p[:])
	for _, part := range parts {
		h.Write(part)
	}
	h.Sum(p[:0])
}

// Keys are the secret keys of one session (3.2.5.3.1).
type Keys struct {
	Signing     []byte // 16 bytes
	Encrypt     []byte // client to server; 16 or 32 bytes; nil below 3.0
	Decrypt     []byte // server to client
	Application []byte // 16 bytes; nil below 3.0
}

// DeriveKeys derives the keys of a session from the session key of its authentication. Only AES-256 uses more
// than its first 16 bytes; a shorter one is padded with zeros (3.2.5.3). preauth is used with 3.1.1 only and
// may be nil below.
func DeriveKeys(d proto.Dialect, c proto.Cipher, sessionKey []byte, preauth *Preauth) Keys {
	var short [16]byte
	copy(short[:], sessionKey)
	if d < proto.Dialect300 {
		return Keys{Signing: short[:]}
	}
	full, size := short[:], 16
	if c == proto.CipherAES256CCM || c == proto.CipherAES256GCM {
		size = 32
		if len(sessionKey) > len(full) {
			full = sessionKey
		}
	}
	if d < proto.Dialect311 {
		return Keys{
			Signing:     kdf(short[:], "SMB2AESCMAC\x00", []byte("SmbSign\x00"), 16),
			Encrypt:     kdf(full, "SMB2AESCCM\x00", []byte("ServerIn \x00"), size),
			Decrypt:     kdf(full, "SMB2AESCCM\x00", []byte("ServerOut\x00"), size),
			Application: kdf(short[:], "SMB2APP\x00", []byte("SmbRpc\x00"), 16),
		}
	}
	return Keys{
		Signing:     kdf(short[:], "SMBSigningKey\x00", preauth[:], 16),
		Encrypt:     kdf(full, "SMBC2SCipherKey\x00", preauth[:], size),
		Decrypt:     kdf(full, "SMBS2CCipherKey\x00", preauth[:], size),
		Application: kdf(short[:], "SMBAppKey\x00", preauth[:], 16),
	}
}

// kdf is SP 800-108 in counter mode with HMAC-SHA256, r = 32 and one block of output
// (3.1.4.2). label includes its terminating zero.
func kdf(key []byte, label string, context []byte, size int) []byte {
	m := hmac.New(sha256.New, key)
	var n [4]byte
	binary.BigEndian.PutUint32(n[:], 1)
	m.Write(n[:])
	m.Write([]byte(label))
	m.Write([]byte{0})
	m.Write(context)
	binary.BigEndian.PutUint32(n[:], uint32(size)*8)
	m.Write(n[:])
	return m.Sum(nil)[:size]
}
