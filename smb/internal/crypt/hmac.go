package crypt

import (
	"crypto/hmac"
	"crypto/sha256"
	"hash"
	"sync"
)

// hmacSummer is HMAC-SHA256 truncated to 16 bytes, the signature of 2.x (3.1.4.1).
type hmacSummer struct{ states sync.Pool }

type hmacState struct {
	h   hash.Hash
	out [sha256.Size]byte
}

func newHMAC(key []byte) *hmacSummer {
	key = append([]byte(nil), key...)
	s := new(hmacSummer)
	s.states.New = func() any { return &hmacState{h: hmac.New(sha256.New, key)} }
	return s
}

func (s *hmacSummer) sum(head []byte, rest [][]byte) mac {
	st := s.states.Get().(*hmacState)
	st.h.Reset()
	st.h.Write(head)
	for _, p := range rest {
		st.h.Write(p)
	}
	m := mac(st.h.Sum(st.out[:0]))
	s.states.Put(st)
	return m
}
