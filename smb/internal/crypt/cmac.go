package crypt

import (
	"crypto/aes"
	"crypto/subtle"
	"sync"
)

// cmacSummer is AES-128-CMAC (RFC 4493), the signature of 3.x when no other was negotiated.
type cmacSummer struct {
	k1, k2 [blockSize]byte
	states sync.Pool
}

type cmacState struct {
	cbc  cbcMAC
	last [blockSize]byte // possibly the last block
	n    int             // of last
}

func newCMAC(key []byte) (*cmacSummer, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, ErrKey
	}
	s := new(cmacSummer)
	block.Encrypt(s.k1[:], s.k1[:])
	double(&s.k1)
	s.k2 = s.k1
	double(&s.k2)
	s.states.New = func() any {
		st := new(cmacState)
		st.cbc.init(block)
		return st
	}
	return s, nil
}

// double multiplies by x in GF(2^128), in constant time (RFC 4493 2.3).
func double(k *[blockSize]byte) {
	carry := byte(0)
	for i := blockSize - 1; i >= 0; i-- {
		k[i], carry = k[i]<<1|carry, k[i]>>7
	}
	k[blockSize-1] ^= 0x87 & -carry
}

func (s *cmacSummer) sum(head []byte, rest [][]byte) mac {
	st := s.states.Get().(*cmacState)
	st.cbc.start()
	st.n = 0
	st.write(head)
	for _, p := range rest {
		st.write(p)
	}
	if st.n == blockSize {
		subtle.XORBytes(st.last[:], st.last[:], s.k1[:])
	} else {
		st.last[st.n] = 0x80
		clear(st.last[st.n+1:])
		subtle.XORBytes(st.last[:], st.last[:], s.k2[:])
	}
	st.cbc.write(st.last[:])
	m := st.cbc.chain
	s.states.Put(st)
	return m
}

// write keeps back the last block, complete or not, because it is processed differently.
func (st *cmacState) write(p []byte) {
	if len(p) == 0 {
		return
	}
	if st.n > 0 {
		c := copy(st.last[st.n:], p)
		st.n += c
		if p = p[c:]; len(p) == 0 {
			return
		}
		st.cbc.write(st.last[:])
	}
	whole := (len(p) - 1) &^ (blockSize - 1)
	st.cbc.write(p[:whole])
	st.n = copy(st.last[:], p[whole:])
}
