package crypt

import (
	"bytes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

var ciphers = []proto.Cipher{proto.CipherAES128CCM, proto.CipherAES128GCM, proto.CipherAES256CCM, proto.CipherAES256GCM}

func keyFor(c proto.Cipher) []byte {
	key := make([]byte, 16)
	if c >= proto.CipherAES256CCM {
		key = make([]byte, 32)
	}
	for i := range key {
		key[i] = byte(i * 7)
	}
	return key
}

// RFC 3610 section 8, packet vectors 1, 2 and 7.
func TestCCMVectors(t *testing.T) {
	for i, v := range []struct {
		tag                          int
		nonce, aad, plaintext, total string
	}{
		{8, "00000003020100A0A1A2A3A4A5", "0001020304050607", "08090A0B0C0D0E0F101112131415161718191A1B1C1D1E",
			"588C979A61C663D2F066D0C2C0F989806D5F6B61DAC38417E8D12CFDF926E0"},
		{8, "00000004030201A0A1A2A3A4A5", "0001020304050607", "08090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F",
			"72C91A36E135F8CF291CA894085C87E3CC15C439C9E43A3BA091D56E10400916"},
		{10, "00000009080706A0A1A2A3A4A5", "0001020304050607", "08090A0B0C0D0E0F101112131415161718191A1B1C1D1E",
			"0135D1B2C95F41D5D1D4FEC185D166B8094E999DFED96C048C56602C97ACBB7490"},
	} {
		c, err := newCCM(unhex(t, "C0C1C2C3C4C5C6C7C8C9CACBCCCDCECF"), 13, v.tag)
		if err != nil {
			t.Fatal(err)
		}
		got := c.Seal(nil, unhex(t, v.nonce), unhex(t, v.plaintext), unhex(t, v.aad))
		same(t, fmt.Sprintf("vector %d", i), got, v.total)
		back, err := c.Open(nil, unhex(t, v.nonce), got, unhex(t, v.aad))
		if err != nil {
			t.Errorf("vector %d: %v", i, err)
		}
		same(t, "opened", back, v.plaintext)
	}
}

// The session that Microsoft published beside MS-SMB2: the encrypted WRITE request and READ response.
func TestPublishedSession(t *testing.T) {
	k := DeriveKeys(proto.Dialect300, proto.CipherAES128CCM, unhex(t, "B4546771B515F766A86735532DD6C4F0"), nil)
	same(t, "signing key", k.Signing, "F773CD23C18FD1E08EE510CADA7CF852")
	aead, err := newAEAD(proto.CipherAES128CCM, k.Encrypt)
	if err != nil {
		t.Fatal(err)
	}
	sealed := aead.Seal(nil, unhex(t, "66E69A111892584FB5ED52"), unhex(t, `
		FE534D4240000100000000000900400008000000000000000400000000000000
		FFFE0000010000001100001400E4080000000000000000000000000000000000
		3100700017000000000000000000000015010000390000020100000039020000
		00000000000000007000000000000000536D623320656E6372797074696F6E20
		74657374696E67`), unhex(t, "66E69A111892584FB5ED524A744DA3EE87000000000001001100001400E40800"))
	same(t, "encrypted WRITE", sealed, `
		25C8FEE16605A437832D1CD52DA9F4645333482A175FE5384563F45FCDAFAEF3
		8BC62BA4D5C62897996625A44C29BE5658DE2E6117585779E7B59FFD971278D0
		8580D7FA899E410E910EABF5AA1DB43050B33B49182637759AC15D84BFCDF5B6
		B238993C0F4CF4D6012023F6C627297075D84B7803912D0A9639634453595EF3
		E33FFE4E7AC2AB 81A286535415445DAE393921E44FA42E`)

	o, err := NewOpener(proto.CipherAES128CCM, k.Decrypt)
	if err != nil {
		t.Fatal(err)
	}
	frame := unhex(t, `
		FD534D42ABD518B68C2F04D7879F482B689EB83F870000000000000011000014
		00E4080067000000000001001100001400E40800493D6FE2BDBEB435CF5F5469
		70C7BB57BF20E713C75A3D045507E0D68E5C0346659D6FFB8AC1504A786CA2BB
		89C9E7FE4F313E910A04180D2D0EA7DF636329E5A3285984500EF86FE9D55DA4
		FAB9531CFDD4C551D47F3C73124BB4590A45052B694048B991CCF5`)
	msg, err := o.Open(append(frame, make([]byte, Spare)...))
	if err != nil {
		t.Fatal(err)
	}
	r, err := proto.DecodeReadResponse(msg)
	if err != nil || string(r.Data) != "Smb3 encryption testing" {
		t.Errorf("decrypted READ response: %q, %v", r.Data, err)
	}
}

// Compares the fast counter mode with the standard library's, and in-place with separate destinations.
func TestCCMPaths(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	for _, size := range []int{16, 32} {
		key := make([]byte, size)
		fast, _ := newCCM(key, ccmNonce, blockSize)
		slow, _ := newCCM(key, ccmNonce, blockSize)
		slow.gcm = nil
		for _, n := range []int{0, 1, 15, 16, 17, 31, 32, 33, 100, 4095, 4096, 4097, 70000} {
			for _, aadLen := range []int{0, 1, 13, 14, 15, 32} {
				plain, aad, nonce := make([]byte, n), make([]byte, aadLen), make([]byte, ccmNonce)
				for _, b := range [][]byte{plain, aad, nonce} {
					for i := range b {
						b[i] = byte(r.Uint32())
					}
				}
				want := slow.Seal(nil, nonce, plain, aad)
				inPlace := append(bytes.Clone(plain), make([]byte, blockSize)...)
				if got := fast.Seal(inPlace[:0], nonce, inPlace[:n], aad); !bytes.Equal(got, want) {
					t.Fatalf("%d bytes, %d additional: in place differs", n, aadLen)
				}
				if got := fast.Seal([]byte("x"), nonce, plain, aad); !bytes.Equal(got[1:], want) || got[0] != 'x' {
					t.Fatalf("%d bytes, %d additional: appended differs", n, aadLen)
				}
				if got, err := fast.Open(nil, nonce, want, aad); err != nil || !bytes.Equal(got, plain) {
					t.Fatalf("%d bytes: open apart: %v", n, err)
				}
				if got, err := fast.Open(inPlace[:0], nonce, inPlace, aad); err != nil || !bytes.Equal(got, plain) {
					t.Fatalf("%d bytes: open in place: %v", n, err)
				}
			}
		}
	}
	var _ cipher.AEAD = new(ccm)
}

func TestSealOpen(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	for _, c := range ciphers {
		s, err := NewSealer(c, keyFor(c))
		if err != nil {
			t.Fatal(err)
		}
		o, _ := NewOpener(c, keyFor(c))
		nonces := map[[16]byte]bool{}
		for _, n := range []int{64, 65, 100, 4096, 65616} {
			msg := testMessage(n)
			frame := append(append(make([]byte, Overhead), msg...), make([]byte, Spare)...)
			if err := s.Seal(frame, 77); err != nil {
				t.Fatal(err)
			}
			sent := bytes.Clone(frame[:len(frame)-Spare])
			h, err := proto.DecodeTransformHeader(sent)
			if err != nil || h.SessionID != 77 || nonces[h.Nonce] {
				t.Fatalf("%v: header %+v, %v", c, h, err)
			}
			nonces[h.Nonce] = true
			for range 20 {
				bad := append(bytes.Clone(sent), make([]byte, Spare)...)
				i := 4 + r.IntN(len(sent)-4)
				bad[i] ^= 1 << r.IntN(8)
				// the nonce field is longer than the nonce, but all of it is authenticated
				if _, err := o.Open(bad); !errors.Is(err, ErrAuth) && !errors.Is(err, proto.ErrMalformed) {
					t.Fatalf("%v: byte %d changed: %v", c, i, err)
				}
			}
			got, err := o.Open(append(sent, bytes.Repeat([]byte{0xaa}, Spare)...))
			if err != nil || !bytes.Equal(got, msg) {
				t.Fatalf("%v of %d bytes: %v", c, n, err)
			}
		}
		if _, err := o.Open(nil); !errors.Is(err, proto.ErrMalformed) {
			t.Errorf("%v: empty frame: %v", c, err)
		}
	}
}

func TestSealerUsedUp(t *testing.T) {
	s, _ := NewSealer(proto.CipherAES128GCM, make([]byte, 16))
	s.counter.Store(s.counter.Load() + nonceLimit - 2)
	frame := append(append(make([]byte, Overhead), testMessage(80)...), make([]byte, Spare)...)
	if err := s.Seal(frame, 1); err != nil {
		t.Fatalf("last message: %v", err)
	}
	last := binary.LittleEndian.Uint64(frame[proto.TransformNonce:])
	for range 3 {
		if err := s.Seal(frame, 1); !errors.Is(err, ErrNonces) {
			t.Fatalf("past the last: %v", err)
		}
	}
	if now := binary.LittleEndian.Uint64(frame[proto.TransformNonce:]); now != last {
		t.Error("a refused Seal wrote to the frame")
	}
}

func TestSealAllocates(t *testing.T) {
	if raceEnabled {
		t.Log("sync.Pool drops entries at random under the race detector: not counted")
		return
	}
	for _, c := range ciphers {
		s, _ := NewSealer(c, keyFor(c))
		o, _ := NewOpener(c, keyFor(c))
		frame := append(append(make([]byte, Overhead), testMessage(70_000)...), make([]byte, Spare)...)
		if n := testing.AllocsPerRun(200, func() {
			if err := s.Seal(frame, 5); err != nil {
				t.Fatal(err)
			}
			if _, err := o.Open(frame); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%v: %v allocations a message, want 0", c, n)
		}
	}
}

func TestCipherErrors(t *testing.T) {
	if _, err := NewSealer(proto.CipherAES256GCM, make([]byte, 16)); !errors.Is(err, ErrKey) {
		t.Errorf("short key: %v", err)
	}
	if _, err := NewOpener(9, make([]byte, 16)); !errors.Is(err, ErrAlgorithm) {
		t.Errorf("cipher 9: %v", err)
	}
}

func FuzzOpen(f *testing.F) {
	f.Add(append([]byte("\xfdSMB"), make([]byte, 150)...))
	openers := map[proto.Cipher]*Opener{}
	for _, c := range ciphers {
		openers[c], _ = NewOpener(c, keyFor(c))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		for c, o := range openers {
			if _, err := o.Open(bytes.Clone(frame)); err == nil {
				t.Errorf("%v: opened a forgery", c)
			}
		}
	})
}

func BenchmarkSealOpen(b *testing.B) {
	for _, c := range ciphers {
		for _, n := range []int{1 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%v/%d", c, n), func(b *testing.B) {
				s, _ := NewSealer(c, keyFor(c))
				frame := append(append(make([]byte, Overhead), testMessage(n)...), make([]byte, Spare)...)
				b.SetBytes(int64(n))
				b.ReportAllocs()
				for b.Loop() {
					if err := s.Seal(frame, 5); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
