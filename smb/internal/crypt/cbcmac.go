package crypt

import (
	"crypto/cipher"
	"crypto/subtle"
)

const blockSize = 16

// cbcMAC is the core that AES-CMAC and AES-CCM share: CBC encryption of which only the
// last block is kept. It hands the standard library long runs, not blocks: that is four
// times as fast as a call for each block.
type cbcMAC struct {
	mode cipher.BlockMode
	// chain is the last block out of mode, which mode will add to the next one.
	chain   [blockSize]byte
	block   [blockSize]byte
	scratch [4096]byte
	fresh   bool // the next block is the first of a message
}

func (m *cbcMAC) init(b cipher.Block) {
	m.mode = cipher.NewCBCEncrypter(b, m.chain[:])
}

// reset begins another message.
func (m *cbcMAC) reset() { m.fresh = true }

// write takes in p, whose length is a multiple of 16.
func (m *cbcMAC) write(p []byte) {
	if len(p) == 0 {
		return
	}
	if m.fresh {
		// mode cannot be reset; cancelling what it will add is the same as an IV of zero
		m.fresh = false
		subtle.XORBytes(m.block[:], p[:blockSize], m.chain[:])
		m.run(m.block[:])
		p = p[blockSize:]
	}
	for len(p) > 0 {
		n := min(len(p), len(m.scratch))
		m.run(p[:n])
		p = p[n:]
	}
}

func (m *cbcMAC) run(p []byte) {
	m.mode.CryptBlocks(m.scratch[:], p)
	copy(m.chain[:], m.scratch[len(p)-blockSize:len(p)])
}
