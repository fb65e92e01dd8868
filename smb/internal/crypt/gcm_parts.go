package crypt

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

// gcmParts encrypts a message with AES-GCM whose head and payload are in different places, so that a long payload need
// not be copied behind its head first. The standard library's GCM is the fast implementation, but takes a message in
// one piece.
//
// So the head, a multiple of 16 bytes, and the payload are encrypted as two messages. The payload's counter must begin
// where the head's ends. GCM computes the first counter block J from a nonce N of 16 bytes by GHASH (SP 800-38D 7.1),
// which can be inverted: J = (N·H + L)·H, where L holds the nonce's length, so N = (J/H + L)/H. The payload's
// additional data is that of the message, followed by the head's ciphertext. The payload's tag differs from that of the
// message by two terms: what hides the hash, E(J), and the block of lengths.
//
// The bytes are those of the message encrypted in one piece: no counter block is used that GCM would not use.
type gcmParts struct {
	block   cipher.Block
	aead    cipher.AEAD // for nonces of 16 bytes
	h       element
	inverse element // 1/H²
	shift   element // L/H
}

// partsFrom is the length in bytes from which a payload is not copied: the two parts then take no more time than one
// and the copy (BenchmarkSealPayload).
const partsFrom = 16 << 10

// partsFor returns nil for a cipher whose messages are encrypted in one piece.
func partsFor(c proto.Cipher, key []byte) *gcmParts {
	if c == proto.CipherAES128GCM || c == proto.CipherAES256GCM {
		return newGCMParts(key)
	}
	return nil
}

// newGCMParts returns nil where the standard library permits only nonces of 12 bytes, as in FIPS 140-only mode.
func newGCMParts(key []byte) *gcmParts {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil
	}
	aead, err := cipher.NewGCMWithNonceSize(block, blockSize)
	if err != nil {
		return nil
	}
	var b [blockSize]byte
	block.Encrypt(b[:], b[:])
	p := &gcmParts{block: block, aead: aead, h: loadElement(b[:])}
	if p.h == (element{}) {
		return nil // it has no inverse; one key in 2^128 is such
	}
	inverse := p.h.inverse()
	p.inverse = inverse.mul(inverse)
	p.shift = lengths(0, blockSize).mul(inverse)
	return p
}

// lengths is the block of lengths that ends a hash (SP 800-38D 6.4).
func lengths(additional, ciphertext int) element {
	return element{hi: uint64(additional) * 8, lo: uint64(ciphertext) * 8}
}

// counterBlock stores in b the counter block before that of block n of a message. nonce has 12 bytes.
func counterBlock(b, nonce []byte, n int) {
	copy(b, nonce)
	binary.BigEndian.PutUint32(b[12:blockSize], uint32(n)+1)
}

// nonce stores in b the nonce of the payload behind a head of n bytes. nonce is that of the message.
func (p *gcmParts) nonce(b, nonce []byte, n int) {
	counterBlock(b, nonce, n/blockSize)
	loadElement(b).mul(p.inverse).add(p.shift).store(b)
}

// correction is the difference of the payload's tag and that of the message, whose head has n bytes. b is scratch.
func (p *gcmParts) correction(b, nonce []byte, additional, n, payload int) element {
	counterBlock(b, nonce, 0)
	p.block.Encrypt(b, b)
	sum := loadElement(b)
	counterBlock(b, nonce, n/blockSize)
	p.block.Encrypt(b, b)
	sum = sum.add(loadElement(b))
	return sum.add(lengths(additional, n+payload).add(lengths(additional+n, payload)).mul(p.h))
}
