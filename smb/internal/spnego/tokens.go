package spnego

import (
	"encoding/asn1"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/crypto/cryptobyte"
	der "golang.org/x/crypto/cryptobyte/asn1"
)

// oidSPNEGO identifies SPNEGO itself (RFC 4178 4.1).
const oidSPNEGO = "1.3.6.1.5.5.2"

// tagGSS is the tag of the initiator's first token: [APPLICATION 0] (RFC 2743 3.1).
const tagGSS = der.Tag(0x60)

// field is the tag [n].
func field(n uint8) der.Tag { return der.Tag(n).ContextSpecific().Constructed() }

// negState is the acceptor's state (RFC 4178 4.2.2).
type negState int

const (
	acceptCompleted  negState = 0
	acceptIncomplete negState = 1
	reject           negState = 2
	requestMIC       negState = 3
	noState          negState = -1
)

// encodeOID is an OBJECT IDENTIFIER in DER. It panics when s is not one: callers pass constants.
func encodeOID(s string) []byte {
	var oid asn1.ObjectIdentifier
	for part := range strings.SplitSeq(s, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			panic("spnego: bad object identifier " + s)
		}
		oid = append(oid, n)
	}
	var b cryptobyte.Builder
	b.AddASN1ObjectIdentifier(oid)
	return b.BytesOrPanic()
}

// mechList is the MechTypeList of one mechanism, over which mechListMIC is computed.
func mechList(oid string) []byte {
	var b cryptobyte.Builder
	b.AddASN1(der.SEQUENCE, func(b *cryptobyte.Builder) { b.AddBytes(encodeOID(oid)) })
	return b.BytesOrPanic()
}

// addOctets adds an OCTET STRING as the field n, unless it is empty.
func addOctets(b *cryptobyte.Builder, n uint8, octets []byte) {
	if len(octets) > 0 {
		b.AddASN1(field(n), func(b *cryptobyte.Builder) { b.AddASN1OctetString(octets) })
	}
}

// encodeInit is the initiator's first token (RFC 4178 4.2.1).
func encodeInit(list, token []byte) []byte {
	var b cryptobyte.Builder
	b.AddASN1(tagGSS, func(b *cryptobyte.Builder) {
		b.AddBytes(encodeOID(oidSPNEGO))
		b.AddASN1(field(0), func(b *cryptobyte.Builder) {
			b.AddASN1(der.SEQUENCE, func(b *cryptobyte.Builder) {
				b.AddASN1(field(0), func(b *cryptobyte.Builder) { b.AddBytes(list) })
				addOctets(b, 2, token)
			})
		})
	})
	return b.BytesOrPanic()
}

// encodeResponse is a later token of the initiator (RFC 4178 4.2.2).
func encodeResponse(token, mic []byte) []byte {
	var b cryptobyte.Builder
	b.AddASN1(field(1), func(b *cryptobyte.Builder) {
		b.AddASN1(der.SEQUENCE, func(b *cryptobyte.Builder) {
			addOctets(b, 2, token)
			addOctets(b, 3, mic)
		})
	})
	return b.BytesOrPanic()
}

// only reads the one element that s consists of.
func only(s cryptobyte.String, tag der.Tag) (content cryptobyte.String, ok bool) {
	ok = s.ReadASN1(&content, tag) && s.Empty()
	return content, ok
}

// decodeOffer reads the token that a server sends with its NEGOTIATE response, of which only the list of
// mechanisms is used (MS-SPNG 2.2.1): f gets each OID in DER.
func decodeOffer(b []byte, f func(oid []byte)) error {
	s, ok := only(b, tagGSS)
	var oid, list cryptobyte.String
	if !ok || !s.ReadASN1Element(&oid, der.OBJECT_IDENTIFIER) || string(oid) != string(encodeOID(oidSPNEGO)) {
		return fmt.Errorf("%w: not of SPNEGO", ErrToken)
	}
	if s, ok = only(s, field(0)); ok {
		s, ok = only(s, der.SEQUENCE)
	}
	if ok = ok && s.ReadASN1(&list, field(0)); ok {
		list, ok = only(list, der.SEQUENCE)
	}
	for ok && !list.Empty() {
		if ok = list.ReadASN1Element(&oid, der.OBJECT_IDENTIFIER); ok {
			f(oid)
		}
	}
	if !ok {
		return fmt.Errorf("%w: malformed list of mechanisms", ErrToken)
	}
	return nil
}

// response is a token of the acceptor (RFC 4178 4.2.2).
type response struct {
	state negState
	mech  []byte // the OID in DER; nil when absent
	token []byte
	mic   []byte
}

func decodeResponse(b []byte) (response, error) {
	r := response{state: noState}
	s, ok := only(b, field(1))
	if ok {
		s, ok = only(s, der.SEQUENCE)
	}
	for n := uint8(0); ok && n < 4; n++ {
		var content cryptobyte.String
		var present bool
		if ok = s.ReadOptionalASN1(&content, &present, field(n)); ok && present {
			ok = r.read(n, content)
		}
	}
	if !ok || !s.Empty() {
		return r, fmt.Errorf("%w: malformed", ErrToken)
	}
	return r, nil
}

// read reads the field n.
func (r *response) read(n uint8, s cryptobyte.String) (ok bool) {
	var state int
	switch n {
	case 0:
		ok = s.ReadASN1Enum(&state) && s.Empty() && state >= 0 && state <= int(requestMIC)
		r.state = negState(state)
	case 1:
		ok = s.ReadASN1Element((*cryptobyte.String)(&r.mech), der.OBJECT_IDENTIFIER) && s.Empty()
	case 2:
		r.token, ok = only(s, der.OCTET_STRING)
	case 3:
		r.mic, ok = only(s, der.OCTET_STRING)
	}
	return ok
}
