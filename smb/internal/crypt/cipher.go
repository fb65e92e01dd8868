package crypt

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"sync/atomic"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

const (
	// Overhead is the length in bytes of the TRANSFORM header before an encrypted message.
	Overhead = proto.TransformHeaderSize
	// Spare is how many bytes of space must follow a message while it is encrypted or decrypted in place.
	Spare = proto.SignatureSize
)

// ErrNonces is returned when a key has encrypted all the messages it may.
var ErrNonces = errors.New("smb: encryption key used up")

// nonceLimit is how many messages one key encrypts: as many as SP 800-38D allows for a nonce that is a
// counter, more than any connection sends.
const nonceLimit = 1 << 48

// Sealer encrypts messages with one key (3.1.4.3). It may be used concurrently, on different messages, and
// allocates nothing in steady state.
type Sealer struct {
	aead    cipher.AEAD
	counter atomic.Uint64 // the nonce: never repeated for this key
}

// NewSealer makes the sealer for one cipher, with the key of [Keys.Encrypt]. One key must
// have one Sealer: a second would repeat its nonces. The errors are [ErrAlgorithm] and [ErrKey].
func NewSealer(c proto.Cipher, key []byte) (*Sealer, error) {
	aead, err := newAEAD(c, key)
	if err != nil {
		return nil, err
	}
	s := &Sealer{aead: aead}
	// start anywhere in the lower half, so that a key that is derived twice by mistake hardly repeats a
	// nonce; more than nonceLimit values remain
	var start [8]byte
	if _, err := rand.Read(start[:]); err != nil {
		return nil, err
	}
	s.counter.Store(binary.LittleEndian.Uint64(start[:]) >> 1 &^ (nonceLimit - 1))
	return s, nil
}

// Seal encrypts frame in place. It has [Overhead] bytes of any content, then the message, then [Spare] bytes
// of any content. Seal fills in the first and overwrites the last: frame[:len(frame)-Spare] is sent. It
// panics when frame is too short for them. The error is [ErrNonces]; then frame has not been changed.
func (s *Sealer) Seal(frame []byte, sessionID uint64) error {
	end := len(frame) - Spare
	message := frame[Overhead:end]
	if err := s.begin(frame, len(message), sessionID); err != nil {
		return err
	}
	sealed := s.aead.Seal(message[:0], nonceOf(s.aead, frame), message, additional(frame))
	copy(frame[proto.TransformSignature:], sealed[len(message):])
	return nil
}

// begin fills in the header of frame, whose message has n bytes.
func (s *Sealer) begin(frame []byte, n int, sessionID uint64) error {
	count := s.counter.Add(1)
	if count&(nonceLimit-1) == 0 {
		s.counter.Add(^uint64(0)) // stay at the limit
		return ErrNonces
	}
	h := proto.TransformHeader{Size: uint32(n), Flags: proto.TransformEncrypted, SessionID: sessionID}
	binary.LittleEndian.PutUint64(h.Nonce[:], count)
	h.Append(frame[:0])
	return nil
}

// Opener decrypts messages with one key (3.1.4.3). It may be used concurrently, on different messages, and
// allocates nothing in steady state.
type Opener struct{ aead cipher.AEAD }

// NewOpener makes the opener for one cipher, with the key of [Keys.Decrypt]. The errors
// are [ErrAlgorithm] and [ErrKey].
func NewOpener(c proto.Cipher, key []byte) (*Opener, error) {
	aead, err := newAEAD(c, key)
	if err != nil {
		return nil, err
	}
	return &Opener{aead}, nil
}

// Open decrypts frame in place: an encrypted message as received, with its header, and [Spare] bytes of any
// content behind it. It returns the message, which aliases frame. The errors are [ErrAuth] and those that
// match [proto.ErrMalformed]; then the content of frame is undefined.
func (o *Opener) Open(frame []byte) ([]byte, error) {
	if len(frame) < Spare {
		return nil, proto.ErrMalformed
	}
	if _, err := proto.DecodeTransformHeader(frame[:len(frame)-Spare]); err != nil {
		return nil, err
	}
	copy(frame[len(frame)-Spare:], frame[proto.TransformSignature:proto.TransformNonce])
	sealed := frame[Overhead:]
	message, err := o.aead.Open(sealed[:0], nonceOf(o.aead, frame), sealed, additional(frame))
	if err != nil {
		return nil, ErrAuth
	}
	return message, nil
}

func newAEAD(c proto.Cipher, key []byte) (cipher.AEAD, error) {
	size := 16
	switch c {
	case proto.CipherAES128CCM, proto.CipherAES128GCM:
	case proto.CipherAES256CCM, proto.CipherAES256GCM:
		size = 32
	default:
		return nil, ErrAlgorithm
	}
	if len(key) != size {
		return nil, ErrKey
	}
	if c == proto.CipherAES128CCM || c == proto.CipherAES256CCM {
		return newCCM(key, ccmNonce, Spare)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, ErrKey
	}
	return cipher.NewGCM(block)
}

// nonceOf is the part of the header's nonce field that the cipher uses (2.2.41).
func nonceOf(a cipher.AEAD, frame []byte) []byte {
	return frame[proto.TransformNonce : proto.TransformNonce+a.NonceSize()]
}

// additional is the part of the header that is authenticated (3.1.4.3).
func additional(frame []byte) []byte { return frame[proto.TransformNonce:Overhead] }
