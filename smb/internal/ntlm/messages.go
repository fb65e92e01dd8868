package ntlm

import (
	"encoding/binary"
	"fmt"
)

var le = binary.LittleEndian

const signature = "NTLMSSP\x00"

// Negotiate flags (MS-NLMP 2.2.2.5).
const (
	flagUnicode       = 0x00000001
	flagRequestTarget = 0x00000004
	flagSign          = 0x00000010
	flagNTLM          = 0x00000200
	flagAnonymous     = 0x00000800
	flagAlwaysSign    = 0x00008000
	flagExtended      = 0x00080000 // extended session security
	flagTargetInfo    = 0x00800000
	flagVersion       = 0x02000000
	flag128           = 0x20000000
	flagKeyExchange   = 0x40000000
	flag56            = 0x80000000

	flagsWanted = flagUnicode | flagRequestTarget | flagSign | flagNTLM | flagAlwaysSign |
		flagExtended | flagTargetInfo | flagVersion | flag128 | flagKeyExchange | flag56
	// without these there is no NTLMv2 with a 128-bit key
	flagsNeeded = flagUnicode | flagNTLM | flagExtended | flag128
)

// version is the VERSION structure of MS-NLMP 2.2.2.10: a Windows version and NTLMSSP revision 15.
const version = "\x06\x01\xb1\x1d\x00\x00\x00\x0f"

// appendNegotiate appends the NEGOTIATE_MESSAGE (MS-NLMP 2.2.1.1), without names.
func appendNegotiate(dst []byte) []byte {
	dst = append(dst, signature...)
	dst = le.AppendUint32(dst, 1)
	dst = le.AppendUint32(dst, flagsWanted)
	dst = append(dst, make([]byte, 16)...) // domain and workstation
	return append(dst, version...)
}

// challenge is the server's CHALLENGE_MESSAGE (MS-NLMP 2.2.1.2).
type challenge struct {
	flags  uint32
	nonce  [8]byte
	target []byte // attribute-value pairs
}

func decodeChallenge(b []byte) (challenge, error) {
	var c challenge
	if len(b) < 32 || string(b[:8]) != signature || le.Uint32(b[8:]) != 2 {
		return c, fmt.Errorf("%w: not a challenge", ErrChallenge)
	}
	c.flags = le.Uint32(b[20:])
	c.nonce = [8]byte(b[24:32])
	if missing := flagsNeeded &^ c.flags; missing != 0 {
		return c, fmt.Errorf("%w: flags %#x refused", ErrChallenge, missing)
	}
	if c.flags&flagTargetInfo != 0 {
		if len(b) < 48 {
			return c, fmt.Errorf("%w: too short", ErrChallenge)
		}
		n, off := uint64(le.Uint16(b[40:])), uint64(le.Uint32(b[44:]))
		if off+n > uint64(len(b)) {
			return c, fmt.Errorf("%w: target information outside the message", ErrChallenge)
		}
		c.target = b[off : off+n]
	}
	return c, nil
}

// authenticateFixed is the length of the AUTHENTICATE_MESSAGE before its payload.
const (
	authenticateFixed = 88
	micOffset         = 72
)

// fields are the variable parts of the AUTHENTICATE_MESSAGE, in the order of their
// descriptors (MS-NLMP 2.2.1.3).
type fields struct {
	lm, nt, domain, user, workstation, key []byte
}

// appendAuthenticate appends the AUTHENTICATE_MESSAGE with a MIC of zeros.
func appendAuthenticate(dst []byte, f fields, flags uint32) []byte {
	dst = append(dst, signature...)
	dst = le.AppendUint32(dst, 3)
	parts := [...][]byte{f.lm, f.nt, f.domain, f.user, f.workstation, f.key}
	off := authenticateFixed
	for _, p := range parts {
		dst = le.AppendUint16(dst, uint16(len(p)))
		dst = le.AppendUint16(dst, uint16(len(p)))
		dst = le.AppendUint32(dst, uint32(off))
		off += len(p)
	}
	dst = le.AppendUint32(dst, flags)
	dst = append(dst, version...)
	dst = append(dst, make([]byte, 16)...)
	for _, p := range parts {
		dst = append(dst, p...)
	}
	return dst
}
