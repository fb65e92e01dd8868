package crypt

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"sync"
)

// ErrAuth is returned when a message does not authenticate: it was changed, or made without the key.
var ErrAuth = errors.New("smb: message authentication failed")

// ccmNonce is the length in bytes of the nonce of SMB's AES-CCM (2.2.41), which leaves four bytes of the
// counter block for the counter.
const ccmNonce = 11

// ccm is AES-CCM (RFC 3610) with a tag of 16 bytes and, unless made by a test, a nonce of 11.
//
// The standard library has no CCM, and its CTR allocates a stream for each message. With an 11-byte nonce the
// counter blocks are 0x03‖nonce‖uint32, which is what GCM uses for the 12-byte nonce 0x03‖nonce: 1 for its
// tag, 2 and above for data. CCM uses 0 for its tag, 1 and above for data. So this code encrypts one block
// and GCM's assembly the others; GCM's tag is written where CCM's will be, and is overwritten.
type ccm struct {
	block  cipher.Block
	gcm    cipher.AEAD // nil when the nonce is not of 11 bytes
	nonce  int
	tag    int
	states sync.Pool
}

type ccmState struct {
	mac     cbcMAC
	block   [blockSize]byte
	counter [blockSize]byte
	stream  [blockSize]byte
	tag     [blockSize]byte
}

func newCCM(key []byte, nonceSize, tagSize int) (*ccm, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, ErrKey
	}
	c := &ccm{block: block, nonce: nonceSize, tag: tagSize}
	if nonceSize == ccmNonce && tagSize == blockSize {
		if c.gcm, err = cipher.NewGCM(block); err != nil {
			return nil, err
		}
	}
	c.states.New = func() any {
		st := new(ccmState)
		st.mac.init(block)
		return st
	}
	return c, nil
}

// NonceSize implements cipher.AEAD.
func (c *ccm) NonceSize() int { return c.nonce }

// Overhead implements cipher.AEAD.
func (c *ccm) Overhead() int { return c.tag }

// Seal implements cipher.AEAD. In place it allocates nothing.
func (c *ccm) Seal(dst, nonce, plaintext, aad []byte) []byte {
	c.check(nonce)
	ret, out := grow(dst, len(plaintext)+c.tag)
	n := len(plaintext)
	copy(out, plaintext) // nothing to do in place
	st := c.states.Get().(*ccmState)
	c.authenticate(st, nonce, out[:n], aad)
	c.crypt(st, nonce, out, n)
	copy(out[n:], st.tag[:c.tag])
	c.states.Put(st)
	return ret
}

// Open implements cipher.AEAD. In place it allocates nothing. The error is [ErrAuth];
// what was decrypted is zeroed then.
func (c *ccm) Open(dst, nonce, ciphertext, aad []byte) ([]byte, error) {
	c.check(nonce)
	n := len(ciphertext) - c.tag
	if n < 0 {
		return nil, ErrAuth
	}
	ret, out := grow(dst, len(ciphertext))
	copy(out, ciphertext)
	st := c.states.Get().(*ccmState)
	defer c.states.Put(st)
	var got [blockSize]byte
	copy(got[:], out[n:])
	c.crypt(st, nonce, out, n)
	c.authenticate(st, nonce, out[:n], aad)
	c.mask(st, nonce)
	if subtle.ConstantTimeCompare(got[:c.tag], st.tag[:c.tag]) != 1 {
		clear(out)
		return nil, ErrAuth
	}
	return ret[:len(dst)+n], nil
}

func (c *ccm) check(nonce []byte) {
	if len(nonce) != c.nonce {
		panic("smb: CCM nonce of the wrong length")
	}
}

// grow lengthens dst by n bytes and returns all of it and the new part.
func grow(dst []byte, n int) (ret, out []byte) {
	if total := len(dst) + n; cap(dst) >= total {
		ret = dst[:total]
	} else {
		ret = make([]byte, total)
		copy(ret, dst)
	}
	return ret, ret[len(dst):]
}

// authenticate leaves the unmasked tag of plaintext in st.tag (RFC 3610 2.2).
func (c *ccm) authenticate(st *ccmState, nonce, plaintext, aad []byte) {
	st.mac.start()
	c.counterBlock(st, nonce, uint64(len(plaintext)))
	st.counter[0] |= byte(c.tag-2) / 2 << 3
	if len(aad) > 0 {
		st.counter[0] |= 0x40
	}
	st.mac.write(st.counter[:])
	if len(aad) > 0 {
		// SMB's additional data has 32 bytes: the two-byte form of its length suffices
		binary.BigEndian.PutUint16(st.block[:], uint16(len(aad)))
		n := copy(st.block[2:], aad)
		c.macPadded(st, 2+n)
		c.macTail(st, aad[n:])
	}
	c.macTail(st, plaintext)
	st.tag = st.mac.chain
}

func (c *ccm) macTail(st *ccmState, p []byte) {
	whole := len(p) &^ (blockSize - 1)
	st.mac.write(p[:whole])
	if whole < len(p) {
		c.macPadded(st, copy(st.block[:], p[whole:]))
	}
}

func (c *ccm) macPadded(st *ccmState, n int) {
	clear(st.block[n:])
	st.mac.write(st.block[:])
}

// counterBlock makes flags‖nonce‖counter (RFC 3610 2.3).
func (c *ccm) counterBlock(st *ccmState, nonce []byte, counter uint64) {
	binary.BigEndian.PutUint64(st.counter[8:], counter)
	st.counter[0] = byte(14 - len(nonce))
	copy(st.counter[1:], nonce)
}

// mask adds the first key stream block to st.tag.
func (c *ccm) mask(st *ccmState, nonce []byte) {
	c.counterBlock(st, nonce, 0)
	c.block.Encrypt(st.stream[:], st.counter[:])
	subtle.XORBytes(st.tag[:], st.tag[:], st.stream[:])
}

// crypt encrypts or decrypts out[:n] and masks st.tag; it overwrites the space for the tag behind n.
func (c *ccm) crypt(st *ccmState, nonce, out []byte, n int) {
	c.mask(st, nonce)
	c.counterBlock(st, nonce, 1)
	if c.gcm == nil {
		cipher.NewCTR(c.block, st.counter[:]).XORKeyStream(out[:n], out[:n])
		return
	}
	c.block.Encrypt(st.stream[:], st.counter[:])
	first := subtle.XORBytes(out[:min(n, blockSize)], out[:min(n, blockSize)], st.stream[:])
	if first < n {
		c.gcm.Seal(out[first:first], st.counter[:12], out[first:n], nil)
	}
}
