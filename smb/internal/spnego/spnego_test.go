package spnego

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"testing"

	"golang.org/x/crypto/cryptobyte"
	der "golang.org/x/crypto/cryptobyte/asn1"
)

// script is a mechanism with fixed tokens.
type script struct {
	oid   string
	steps []string // our tokens in order
	took  []string // the server's
	mic   string
}

var errMIC = errors.New("wrong MIC")

func (s *script) OID() string { return s.oid }
func (s *script) Step(_ context.Context, in []byte) ([]byte, error) {
	if len(s.steps) == 0 {
		return nil, errors.New("out of steps")
	}
	s.took = append(s.took, string(in))
	out := s.steps[0]
	s.steps = s.steps[1:]
	return []byte(out), nil
}
func (s *script) Done() bool                 { return len(s.steps) == 0 }
func (s *script) SessionKey() []byte         { return []byte("key") }
func (s *script) MIC([]byte) ([]byte, error) { return []byte(s.mic), nil }
func (s *script) VerifyMIC(_, mic []byte) error {
	if string(mic) != "server's" {
		return errMIC
	}
	return nil
}

const ntlm = "1.3.6.1.4.1.311.2.2.10"

// What a Samba server sends with its NEGOTIATE response: NTLM alone, and the hint.
const offerHex = "604806062b0601050502a03e303ca00e300c060a2b06010401823702020aa32a3028a0261b24" +
	"6e6f745f646566696e65645f696e5f5246433431373840706c656173655f69676e6f7265"

func offer(t testing.TB) []byte {
	b, err := hex.DecodeString(offerHex)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func reply(state negState, mech string, token, mic string) []byte {
	var b cryptobyte.Builder
	b.AddASN1(field(1), func(b *cryptobyte.Builder) {
		b.AddASN1(der.SEQUENCE, func(b *cryptobyte.Builder) {
			if state != noState {
				b.AddASN1(field(0), func(b *cryptobyte.Builder) { b.AddASN1Enum(int64(state)) })
			}
			if mech != "" {
				b.AddASN1(field(1), func(b *cryptobyte.Builder) { b.AddBytes(encodeOID(mech)) })
			}
			addOctets(b, 2, []byte(token))
			addOctets(b, 3, []byte(mic))
		})
	})
	return b.BytesOrPanic()
}

func TestNegotiation(t *testing.T) {
	ctx := context.Background()
	m := &script{oid: ntlm, steps: []string{"negotiate", "authenticate"}, mic: "ours"}
	c := New(m)
	first, err := c.Step(ctx, offer(t))
	if err != nil {
		t.Fatal(err)
	}
	var seen [][]byte
	if err := decodeOffer(first, func(oid []byte) { seen = append(seen, oid) }); err != nil || len(seen) != 1 {
		t.Fatalf("our token does not decode: %v %v", seen, err)
	}
	second, err := c.Step(ctx, reply(acceptIncomplete, ntlm, "challenge", ""))
	if err != nil {
		t.Fatal(err)
	}
	r, err := decodeResponse(second)
	if err != nil || string(r.token) != "authenticate" || string(r.mic) != "ours" {
		t.Fatalf("second token %+v, %v", r, err)
	}
	if c.SessionKey() != nil {
		t.Error("a key before the end")
	}
	last, err := c.Step(ctx, reply(acceptCompleted, "", "", "server's"))
	if err != nil || last != nil || !c.Done() || string(c.SessionKey()) != "key" {
		t.Fatal(last, err, c.Done())
	}
	if m.took[1] != "challenge" {
		t.Errorf("mechanism was given %q", m.took)
	}
	if _, err := c.Step(ctx, nil); !errors.Is(err, ErrToken) {
		t.Errorf("after the end: %v", err)
	}
}

func TestKerberosName(t *testing.T) {
	c := New(&script{oid: oidKerberos, steps: []string{"AP-REQ", ""}, mic: "ours"})
	c.Step(context.Background(), nil)
	if _, err := c.Step(context.Background(), reply(acceptCompleted, oidKerberosMS, "AP-REP", "")); err != nil || !c.Done() {
		t.Error(err)
	}
}

func TestRefusals(t *testing.T) {
	ctx := context.Background()
	for name, tc := range map[string]struct {
		in   []byte
		want error
	}{
		"rejected":         {reply(reject, "", "", ""), ErrRejected},
		"other mechanism":  {reply(acceptIncomplete, oidKerberos, "x", ""), ErrMechanism},
		"wrong signature":  {reply(acceptIncomplete, "", "x", "forged"), errMIC},
		"early acceptance": {reply(acceptCompleted, "", "x", ""), ErrToken},
		"not a token":      {[]byte("hello"), ErrToken},
		"trailing":         {append(reply(acceptIncomplete, "", "x", ""), 0), ErrToken},
		"nothing":          {nil, ErrToken},
	} {
		c := New(&script{oid: ntlm, steps: []string{"a", "b"}})
		if _, err := c.Step(ctx, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Step(ctx, tc.in); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
	c := New(&script{oid: oidKerberos, steps: []string{"a"}})
	if _, err := c.Step(ctx, offer(t)); !errors.Is(err, ErrMechanism) {
		t.Errorf("mechanism not offered: %v", err)
	}
}

// The client stops when a server keeps answering "incomplete".
func TestEndless(t *testing.T) {
	c := New(&script{oid: ntlm, steps: []string{"a", "b"}, mic: "m"})
	c.Step(context.Background(), nil)
	for i := range 5 {
		if _, err := c.Step(context.Background(), reply(acceptIncomplete, "", "", "")); err != nil {
			return
		} else if i > 1 {
			t.Fatal("still going")
		}
	}
}

func TestDER(t *testing.T) {
	for _, n := range []int{1, 127, 128, 255, 256, 65535, 65536} {
		b := encodeResponse(make([]byte, n), nil)
		r, err := decodeResponse(b)
		if err != nil || len(r.token) != n {
			t.Errorf("%d bytes: %d, %v", n, len(r.token), err)
		}
		if _, err := decodeResponse(b[:len(b)-1]); !errors.Is(err, ErrToken) {
			t.Errorf("%d bytes cut: %v", n, err)
		}
	}
	for _, bad := range []string{
		"", "\xa1", "\xa1\x80", "\xa1\x81\x02\x30\x00", "\xa1\x84\x00\x00\x00\x02\x30\x00", "\xa1\x82\x00\x81", // lengths
		"\xa1\x04\x30\x02\xa4\x00", "\xa1\x0b\x30\x09\xa2\x02\x04\x00\xa0\x03\x0a\x01\x00", // unknown field, order
		"\xa1\x07\x30\x05\xa0\x03\x0a\x01\x04", "\xa1\x07\x30\x05\xa0\x03\x0a\x01\xff", // state
	} {
		if _, err := decodeResponse([]byte(bad)); !errors.Is(err, ErrToken) {
			t.Errorf("%x: %v", bad, err)
		}
	}
	if got := encodeOID(ntlm); !bytes.Equal(got, []byte{6, 10, 0x2b, 6, 1, 4, 1, 0x82, 0x37, 2, 2, 10}) {
		t.Errorf("OID %x", got)
	}
}

func FuzzTokens(f *testing.F) {
	f.Add(offer(f))
	f.Add(reply(acceptIncomplete, ntlm, "challenge", ""))
	f.Add(reply(acceptCompleted, "", "", "server's"))
	f.Fuzz(func(t *testing.T, in []byte) {
		c := New(&script{oid: ntlm, steps: []string{"a", "b"}, mic: "m"})
		if _, err := c.Step(context.Background(), in); err != nil && !errors.Is(err, ErrToken) && !errors.Is(err, ErrMechanism) {
			t.Error(err)
		}
		c = New(&script{oid: ntlm, steps: []string{"a", "b"}, mic: "m"})
		c.Step(context.Background(), nil)
		c.Step(context.Background(), in)
	})
}
