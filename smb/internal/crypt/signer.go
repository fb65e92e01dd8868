package crypt

import (
	"crypto/subtle"
	"errors"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

// ErrAlgorithm is matched when this package does not support the algorithm.
var ErrAlgorithm = errors.New("smb: unknown signing or encryption algorithm")

// ErrKey is matched when the key's length does not suit its algorithm.
var ErrKey = errors.New("smb: key of the wrong length")

// Signer signs messages and verifies them (3.1.4.1). It may be used concurrently, on different messages, and
// allocates nothing in steady state.
//
// A message is given in pieces: head, which begins with the 64-byte SMB2 header, and the pieces that follow
// it in order. All are borrowed for the call. Each message of a compound is signed separately, with the
// padding behind it.
type Signer interface {
	// Sign writes the signature into head. The caller has already set proto.FlagSigned. It panics when head
	// is shorter than a header.
	Sign(head []byte, rest [][]byte)
	// Verify reports whether the signature in head is right, in constant time. It zeroes the signature during
	// the computation and restores it. A head shorter than a header is never right.
	Verify(head []byte, rest [][]byte) bool
}

// NewSigner makes the signer for one algorithm with the key of [Keys.Signing], 16 bytes.
// The errors are [ErrAlgorithm] and [ErrKey].
func NewSigner(a proto.SigningAlgorithm, key []byte) (Signer, error) {
	if len(key) != 16 {
		return nil, ErrKey
	}
	switch a {
	case proto.SigningHMACSHA256:
		return signer{newHMAC(key)}, nil
	case proto.SigningAESCMAC:
		m, err := newCMAC(key)
		return signer{m}, err
	case proto.SigningAESGMAC:
		m, err := newGMAC(key)
		return signer{m}, err
	}
	return nil, ErrAlgorithm
}

type mac = [proto.SignatureSize]byte

// summer computes the MAC of a message whose signature field is zero.
type summer interface {
	sum(head []byte, rest [][]byte) mac
}

type signer struct{ summer }

func (s signer) Sign(head []byte, rest [][]byte) {
	field := head[proto.OffsetSignature:proto.HeaderSize]
	clear(field)
	m := s.sum(head, rest)
	copy(field, m[:])
}

func (s signer) Verify(head []byte, rest [][]byte) bool {
	if len(head) < proto.HeaderSize {
		return false
	}
	field := head[proto.OffsetSignature:proto.HeaderSize]
	got := mac(field)
	clear(field)
	want := s.sum(head, rest)
	copy(field, got[:])
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}
