package crypt

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

// TestSealPayload compares frames whose payload is elsewhere with frames that are sealed in one piece, byte by byte, with every
// cipher, and opens them.
func TestSealPayload(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, c := range ciphers {
		for _, head := range []int{64, 112, 113, 160} {
			for _, n := range []int{0, 1, 100, partsFrom - 1, partsFrom, partsFrom + 1, partsFrom + 16, 100_000, 1 << 20} {
				t.Run(fmt.Sprintf("%v/head=%d/payload=%d", c, head, n), func(t *testing.T) {
					inOne, err := NewSealer(c, keyFor(c))
					if err != nil {
						t.Fatal(err)
					}
					inTwo, err := NewSealer(c, keyFor(c))
					if err != nil {
						t.Fatal(err)
					}
					inTwo.counter.Store(inOne.counter.Load())
					want := make([]byte, Overhead+head+n+Spare)
					for i := range want {
						want[i] = byte(r.Uint32())
					}
					payload := bytes.Clone(want[Overhead+head : len(want)-Spare])
					message := bytes.Clone(want[Overhead : len(want)-Spare])
					got := append(bytes.Clone(want[:Overhead+head]), make([]byte, n+Spare)...)
					if err := inOne.Seal(want, 5); err != nil {
						t.Fatal(err)
					}
					if err := inTwo.SealPayload(got, payload, 5); err != nil {
						t.Fatal(err)
					}
					if !bytes.Equal(got[:len(got)-Spare], want[:len(want)-Spare]) {
						t.Fatal("the frames differ")
					}
					if !bytes.Equal(payload, message[head:]) {
						t.Error("the payload was changed")
					}
					o, err := NewOpener(c, keyFor(c))
					if err != nil {
						t.Fatal(err)
					}
					if back, err := o.Open(got); err != nil || !bytes.Equal(back, message) {
						t.Fatal("not what was sealed: ", err)
					}
				})
			}
		}
	}
}

// TestSealPayloadNonces ends with the last nonce, as Seal does.
func TestSealPayloadNonces(t *testing.T) {
	s, err := NewSealer(proto.CipherAES128GCM, keyFor(proto.CipherAES128GCM))
	if err != nil {
		t.Fatal(err)
	}
	s.counter.Store(nonceLimit - 1)
	frame := make([]byte, Overhead+64+partsFrom+Spare)
	if err := s.SealPayload(frame, make([]byte, partsFrom), 1); err != ErrNonces {
		t.Fatal(err)
	}
	if !bytes.Equal(frame, make([]byte, len(frame))) {
		t.Error("the frame was changed")
	}
}

func TestInverse(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	one := element{hi: 1 << 63}
	for range 100 {
		x := element{r.Uint64(), r.Uint64()}
		if got := x.mul(x.inverse()); got != one {
			t.Fatalf("%x times its inverse is %x", x, got)
		}
	}
}

// BenchmarkSealPayload compares one message in two parts with copying it together first. There are eight payloads, as with
// eight callers.
func BenchmarkSealPayload(b *testing.B) {
	for _, n := range []int{4 << 10, 8 << 10, 16 << 10, 64 << 10, 512 << 10, 1 << 20} {
		payloads := make([][]byte, 8)
		for i := range payloads {
			payloads[i] = bytes.Repeat([]byte{1}, n)
		}
		frame := make([]byte, Overhead+112+n+Spare)
		for _, how := range []string{"parts", "copied"} {
			b.Run(fmt.Sprintf("size=%d/%s", n, how), func(b *testing.B) {
				s, err := NewSealer(proto.CipherAES128GCM, keyFor(proto.CipherAES128GCM))
				if err != nil {
					b.Fatal(err)
				}
				if how == "copied" {
					s.parts = nil
				}
				b.SetBytes(int64(n))
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					s.SealPayload(frame, payloads[i%8], 1)
					i++
				}
			})
		}
	}
}
