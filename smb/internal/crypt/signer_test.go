package crypt

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

var algorithms = []proto.SigningAlgorithm{proto.SigningHMACSHA256, proto.SigningAESCMAC, proto.SigningAESGMAC}

func testMessage(n int) []byte {
	h := proto.Header{Command: proto.CommandRead, MessageID: 0x1122334455, Flags: proto.FlagSigned}
	msg := h.Append(nil)
	r := rand.New(rand.NewPCG(1, uint64(n)))
	for len(msg) < n {
		msg = append(msg, byte(r.Uint32()))
	}
	return msg
}

// split divides msg behind its head at random places, with empty pieces among them.
func split(r *rand.Rand, msg []byte) (head []byte, rest [][]byte) {
	cut := proto.HeaderSize + r.IntN(min(len(msg)-proto.HeaderSize, 100)+1)
	head, msg = msg[:cut], msg[cut:]
	for len(msg) > 0 {
		n := r.IntN(len(msg) + 1)
		if r.IntN(3) == 0 {
			n = min(n, r.IntN(40))
		}
		rest, msg = append(rest, msg[:n]), msg[n:]
	}
	return head, rest
}

func TestSignPieces(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, a := range algorithms {
		s, err := NewSigner(a, []byte("0123456789abcdef"))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{64, 65, 79, 80, 81, 96, 1000, 8192, 8193, 9000, 20000, 65616, 200003} {
			whole := testMessage(n)
			s.Sign(whole, nil)
			for range 20 {
				msg := testMessage(n)
				head, rest := split(r, msg)
				s.Sign(head, rest)
				if !bytes.Equal(msg, whole) {
					t.Fatalf("%v of %d bytes: the signature of the pieces differs from that of one piece", a, n)
				}
				head, rest = split(r, msg)
				if !s.Verify(head, rest) {
					t.Fatalf("%v of %d bytes: does not verify", a, n)
				}
				if !bytes.Equal(msg, whole) {
					t.Fatalf("%v: Verify changed the message", a)
				}
				i := r.IntN(n)
				msg[i] ^= 1 << r.IntN(8)
				if s.Verify(head, rest) {
					t.Fatalf("%v of %d bytes: verifies with byte %d changed", a, n, i)
				}
			}
		}
		if s.Verify(make([]byte, proto.HeaderSize-1), nil) {
			t.Errorf("%v: verifies a message shorter than its header", a)
		}
	}
}

func TestSignAgainstStandardLibrary(t *testing.T) {
	key := []byte("fedcba9876543210")
	msg := testMessage(100_000)
	zeroed := bytes.Clone(msg)

	s, _ := NewSigner(proto.SigningHMACSHA256, key)
	s.Sign(msg[:70], [][]byte{msg[70:]})
	m := hmac.New(sha256.New, key)
	m.Write(zeroed)
	if !bytes.Equal(msg[48:64], m.Sum(nil)[:16]) {
		t.Error("HMAC-SHA256 differs from crypto/hmac")
	}

	s, _ = NewSigner(proto.SigningAESGMAC, key)
	block, _ := aes.NewCipher(key)
	gcm, _ := cipher.NewGCM(block)
	for _, c := range []struct {
		command proto.Command
		flags   proto.Flags
		role    byte
	}{{proto.CommandRead, 0, 0}, {proto.CommandRead, proto.FlagResponse, 1}, {proto.CommandCancel, 0, 2}} {
		h := proto.Header{Command: c.command, Flags: c.flags | proto.FlagSigned, MessageID: 0x0807060504030201}
		h.Append(msg[:0])
		h.Append(zeroed[:0])
		s.Sign(msg[:80], [][]byte{msg[80:]})
		nonce := []byte{1, 2, 3, 4, 5, 6, 7, 8, c.role, 0, 0, 0}
		if !bytes.Equal(msg[48:64], gcm.Seal(nil, nonce, nil, zeroed)) {
			t.Errorf("GMAC of %v, flags %x differs from crypto/cipher", c.command, c.flags)
		}
	}
}

// RFC 4493 section 4.
func TestCMACVectors(t *testing.T) {
	s, err := newCMAC(unhex(t, "2b7e151628aed2a6abf7158809cf4f3c"))
	if err != nil {
		t.Fatal(err)
	}
	msg := unhex(t, `6bc1bee22e409f96e93d7e117393172a ae2d8a571e03ac9c9eb76fac45af8e51
		30c81c46a35ce411e5fbc1191a0a52ef f69f2445df4f9b17ad2b417be66c3710`)
	for n, want := range map[int]string{
		0: "bb1d6929e95937287fa37d129b756746", 16: "070a16b46b4d4144f79bdd9dd04a287c",
		40: "dfa66747de9ae63030ca32611497c827", 64: "51f0bebf7e3b9d92fc49741779363cfe",
	} {
		m := s.sum(msg[:n/3], [][]byte{msg[n/3 : n]})
		same(t, fmt.Sprintf("CMAC of %d bytes", n), m[:], want)
	}
}

func TestNewSignerErrors(t *testing.T) {
	if _, err := NewSigner(proto.SigningAESCMAC, make([]byte, 15)); !errors.Is(err, ErrKey) {
		t.Errorf("short key: %v", err)
	}
	if _, err := NewSigner(7, make([]byte, 16)); !errors.Is(err, ErrAlgorithm) {
		t.Errorf("algorithm 7: %v", err)
	}
}

func TestSignAllocates(t *testing.T) {
	if raceEnabled {
		t.Log("sync.Pool drops entries at random under the race detector: not counted")
		return
	}
	msg := testMessage(100_000)
	rest := [][]byte{msg[112:]}
	for _, a := range algorithms {
		s, _ := NewSigner(a, make([]byte, 16))
		if n := testing.AllocsPerRun(200, func() {
			s.Sign(msg[:112], rest)
			if !s.Verify(msg[:112], rest) {
				t.Fatal("does not verify")
			}
		}); n != 0 {
			t.Errorf("%v: %v allocations a message, want 0", a, n)
		}
	}
}

func BenchmarkSign(b *testing.B) {
	for _, a := range algorithms {
		for _, n := range []int{1 << 10, 64 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%v/%d", a, n), func(b *testing.B) {
				s, _ := NewSigner(a, make([]byte, 16))
				msg := testMessage(112 + n)
				rest := [][]byte{msg[112:]}
				b.SetBytes(int64(n))
				b.ReportAllocs()
				for b.Loop() {
					s.Sign(msg[:112], rest)
				}
			})
		}
	}
}
