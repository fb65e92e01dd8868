package crypt

import (
	"crypto/cipher"
	"crypto/subtle"
)

const blockSize = 16

// cbcMAC is the core of AES-CMAC and AES-CCM: CBC encryption of which only the last block is kept. It passes
// the standard library long runs, not single blocks, which is four times as fast.
type cbcMAC struct {
	mode cipher.BlockMode
	// chain is the last block that mode returned, which mode will XOR into the next one.
	chain   [blockSize]byte
	block   [blockSize]byte
	scratch [4096]byte
	fresh   bool // the next block is the first of a message
}

func (m *cbcMAC) init(b cipher.Block) {
	m.mode = cipher.NewCBCEncrypter(b, m.chain[:])
}

// start begins a new message.
func (m *cbcMAC) start() { m.fresh = true }

// write adds p, whose length is a multiple of 16.
func (m *cbcMAC) write(p []byte) {
	if len(p) == 0 {
		return
	}
	if m.fresh {
		// mode cannot be reset; XORing in what it will XOR again has the effect of a zero IV
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
