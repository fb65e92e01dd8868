package crypt

import (
	"bytes"
	"sync"
	"testing"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

// A session has one signer, sealer and opener, which all its requests use concurrently.
func TestConcurrent(t *testing.T) {
	var wg sync.WaitGroup
	for _, a := range algorithms {
		s, err := NewSigner(a, make([]byte, 16))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			wg.Go(func() {
				msg := testMessage(20_000 + i)
				for range 50 {
					s.Sign(msg[:112], [][]byte{msg[112:]})
					if !s.Verify(msg, nil) {
						t.Errorf("%v: does not verify", a)
						return
					}
				}
			})
		}
	}
	for _, c := range ciphers {
		s, err := NewSealer(c, keyFor(c))
		if err != nil {
			t.Fatal(err)
		}
		o, err := NewOpener(c, keyFor(c))
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		nonces := map[[16]byte]bool{}
		for i := range 4 {
			wg.Go(func() {
				msg := testMessage(5_000 + i)
				frame := make([]byte, Overhead+len(msg)+Spare)
				for range 50 {
					copy(frame[Overhead:], msg)
					if err := s.Seal(frame, 1); err != nil {
						t.Error(err)
						return
					}
					nonce := [16]byte(frame[proto.TransformNonce:])
					mu.Lock()
					if nonces[nonce] {
						t.Errorf("%v: nonce %x twice", c, nonce)
					}
					nonces[nonce] = true
					mu.Unlock()
					got, err := o.Open(frame)
					if err != nil || !bytes.Equal(got, msg) {
						t.Errorf("%v: %v", c, err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
}
