package ntlm

import (
	"bytes"
	"context"
	"crypto/rc4"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// MS-NLMP 4.2.4: user "User", password "Password", domain "Domain".
func published(t *testing.T) *Context {
	c := New(Config{User: "User", Password: "Password", Domain: "Domain", Workstation: "COMPUTER"})
	c.random = func(b []byte) {
		for i := range b {
			b[i] = 0xaa
			if len(b) == 16 {
				b[i] = 0x55
			}
		}
	}
	return c
}

func TestPublishedKeys(t *testing.T) {
	if got := NTHash("Password"); !bytes.Equal(got, unhex(t, "a4f49c406510bdcab6824ee7c30fd852")) {
		t.Errorf("NT hash %x", got)
	}
	c := published(t)
	if got := c.ntowf(); !bytes.Equal(got, unhex(t, "0c868a403bfd7a93a3001ef22ef02e3f")) {
		t.Errorf("NTOWFv2 %x", got)
	}
	// 4.2.4.1.3: the target information ends the list inside the blob
	info := unhex(t, "02000c0044006f006d00610069006e0001000c005300650072007600650072000000 0000")
	nonce := [8]byte(unhex(t, "0123456789abcdef"))
	// the published blob has a clock of zero, so the parts are tested one by one
	key := c.ntowf()
	blob := append(unhex(t, "0101000000000000 0000000000000000 aaaaaaaaaaaaaaaa 00000000"), info...)
	blob = append(blob, 0, 0, 0, 0)
	proof := hmacMD5(key, nonce[:], blob)
	if !bytes.Equal(proof, unhex(t, "68cd0ab851e51c96aabc927bebef6a1c")) {
		t.Errorf("NTProofStr %x", proof)
	}
	base := hmacMD5(key, proof)
	if !bytes.Equal(base, unhex(t, "8de40ccadbc14a82f15cb0ad0de95ca3")) {
		t.Errorf("session base key %x", base)
	}
	rc, _ := rc4.NewCipher(base)
	enc := make([]byte, 16)
	rc.XORKeyStream(enc, bytes.Repeat([]byte{0x55}, 16))
	if !bytes.Equal(enc, unhex(t, "c5dad2544fc9799094ce1ce90bc9d03e")) {
		t.Errorf("encrypted session key %x", enc)
	}
	lm := append(hmacMD5(key, nonce[:], bytes.Repeat([]byte{0xaa}, 8)), bytes.Repeat([]byte{0xaa}, 8)...)
	if !bytes.Equal(lm, unhex(t, "86c35097ac9cec102554764a57cccc19aaaaaaaaaaaaaaaa")) {
		t.Errorf("LMv2 response %x", lm)
	}
}

// MS-NLMP 4.2.4.4: the signature over "Plaintext" under these keys.
func TestPublishedSealing(t *testing.T) {
	exported := [16]byte(bytes.Repeat([]byte{0x55}, 16))
	if got := derive(exported, clientToServer, "signing"); !bytes.Equal(got, unhex(t, "4788dc861b4782f35d43fd98fe1a2d39")) {
		t.Errorf("client signing key %x", got)
	}
	if got := derive(exported, clientToServer, "sealing"); !bytes.Equal(got, unhex(t, "59f600973cc4960a25480a7c196e4c58")) {
		t.Errorf("client sealing key %x", got)
	}
}

func makeChallenge(flags uint32, target []byte) []byte {
	b := append([]byte(signature), 2, 0, 0, 0)
	b = append(b, make([]byte, 8)...)
	b = le.AppendUint32(b, flags)
	b = append(b, 1, 2, 3, 4, 5, 6, 7, 8)
	b = append(b, make([]byte, 8)...)
	b = le.AppendUint16(b, uint16(len(target)))
	b = le.AppendUint16(b, uint16(len(target)))
	b = le.AppendUint32(b, 56)
	b = append(b, make([]byte, 8)...)
	return append(b, target...)
}

func timedTarget() []byte {
	target := appendAV(nil, 1, utf16le("SERVER"))
	target = appendAV(target, avTimestamp, le.AppendUint64(nil, 0x01d0000000000000))
	return appendAV(target, avEnd, nil)
}

// serve answers as a server does: it derives the session key from the client's messages and checks the proof
// and the MIC, knowing only the password.
func serve(t *testing.T, cfg Config, negotiate, challengeMsg, auth []byte) []byte {
	t.Helper()
	field := func(i int) []byte {
		n, off := le.Uint16(auth[12+8*i:]), le.Uint32(auth[16+8*i:])
		return auth[off : off+uint32(n)]
	}
	nt, key := field(1), field(5)
	verify := New(cfg)
	owf := verify.ntowf()
	if !bytes.Equal(nt[:16], hmacMD5(owf, challengeMsg[24:32], nt[16:])) {
		t.Fatal("wrong proof")
	}
	exported := make([]byte, 16)
	rc, _ := rc4.NewCipher(hmacMD5(owf, nt[:16]))
	rc.XORKeyStream(exported, key)
	zeroed := bytes.Clone(auth)
	clear(zeroed[micOffset : micOffset+16])
	if !bytes.Equal(auth[micOffset:micOffset+16], hmacMD5(exported, negotiate, challengeMsg, zeroed)) {
		t.Fatal("wrong MIC")
	}
	return exported
}

func TestConversation(t *testing.T) {
	ctx := context.Background()
	for _, cfg := range []Config{
		{User: "Ünïcode", Password: "pässwörd", Domain: "DOM", Target: "cifs/server"},
		{User: "u", Hash: NTHash("secret"), Workstation: "here"},
	} {
		c := New(cfg)
		neg, err := c.Step(ctx, nil)
		if err != nil || c.Done() || c.SessionKey() != nil {
			t.Fatal(err, c.Done())
		}
		ch := makeChallenge(flagsWanted, timedTarget())
		auth, err := c.Step(ctx, ch)
		if err != nil || !c.Done() {
			t.Fatal(err)
		}
		exported := serve(t, cfg, neg, ch, auth)
		if !bytes.Equal(exported, c.SessionKey()) {
			t.Errorf("session keys %x and %x", exported, c.SessionKey())
		}
		if cfg.Target != "" && !bytes.Contains(auth, utf16le(cfg.Target)) {
			t.Error("no target name")
		}
		mic, err := c.MIC([]byte("list"))
		if err != nil || len(mic) != 16 {
			t.Fatal(err)
		}
		theirs := c.sealing.sign(serverToClient, c.exported, []byte("list"))
		if err := c.VerifyMIC([]byte("list"), theirs); err != nil {
			t.Error(err)
		}
		if err := c.VerifyMIC([]byte("list"), mic); !errors.Is(err, ErrMIC) {
			t.Errorf("our own MIC reflected: %v", err)
		}
		if _, err := c.Step(ctx, ch); !errors.Is(err, ErrState) {
			t.Errorf("third step: %v", err)
		}
	}
}

func TestAnonymous(t *testing.T) {
	c := New(Config{})
	if _, err := c.Step(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	auth, err := c.Step(context.Background(), makeChallenge(flagsWanted, timedTarget()))
	if err != nil {
		t.Fatal(err)
	}
	if le.Uint16(auth[20:]) != 0 || le.Uint16(auth[12:]) != 1 || le.Uint32(auth[60:])&flagAnonymous == 0 {
		t.Error("not an anonymous logon")
	}
	if mic, err := c.MIC([]byte("x")); mic != nil || err != nil || c.SessionKey() != nil {
		t.Error("anonymous with a key")
	}
}

func TestBadChallenges(t *testing.T) {
	good := makeChallenge(flagsWanted, timedTarget())
	for name, in := range map[string][]byte{
		"empty":             nil,
		"short":             good[:31],
		"no target info":    good[:47],
		"cut target":        good[:len(good)-8],
		"not extended":      makeChallenge(flagsWanted&^flagExtended, nil),
		"not 128":           makeChallenge(flagsWanted&^flag128, nil),
		"attribute runs on": makeChallenge(flagsWanted, []byte{1, 0, 9, 0, 1}),
		"message type":      append([]byte(signature+"\x03"), make([]byte, 60)...),
	} {
		c := New(Config{User: "u"})
		c.Step(context.Background(), nil)
		if _, err := c.Step(context.Background(), in); !errors.Is(err, ErrChallenge) {
			t.Errorf("%s: %v", name, err)
		}
		if c.Done() {
			t.Errorf("%s: done", name)
		}
	}
}

func FuzzChallenge(f *testing.F) {
	f.Add(makeChallenge(flagsWanted, timedTarget()))
	f.Add(makeChallenge(flagsWanted, nil))
	f.Fuzz(func(t *testing.T, in []byte) {
		c := New(Config{User: "u", Password: "p"})
		if _, err := c.Step(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Step(context.Background(), in); err != nil && !errors.Is(err, ErrChallenge) {
			t.Errorf("%v", err)
		}
	})
}
