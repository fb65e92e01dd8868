package spnego

import (
	"fmt"
	"strconv"
	"strings"
)

// Tags of the elements of SPNEGO's tokens (X.690).
const (
	tagOctets     = 0x04
	tagOID        = 0x06
	tagEnumerated = 0x0a
	tagSequence   = 0x30
	tagGSS        = 0x60 // [APPLICATION 0]
	tagContext    = 0xa0 // [0], and so on up
)

// element appends tag, length and the parts as one element.
func element(dst []byte, tag byte, parts ...[]byte) []byte {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	dst = append(dst, tag)
	switch {
	case n < 0x80:
		dst = append(dst, byte(n))
	case n < 0x100:
		dst = append(dst, 0x81, byte(n))
	case n < 0x10000:
		dst = append(dst, 0x82, byte(n>>8), byte(n))
	default:
		dst = append(dst, 0x83, byte(n>>16), byte(n>>8), byte(n))
	}
	for _, p := range parts {
		dst = append(dst, p...)
	}
	return dst
}

// take splits off the first element of b. Lengths must be definite and in their shortest form, as in DER, and
// within b.
func take(b []byte) (tag byte, value, rest []byte, err error) {
	if len(b) < 2 {
		return 0, nil, nil, fmt.Errorf("%w: truncated", ErrToken)
	}
	tag = b[0]
	n, head := int(b[1]), 2
	if n >= 0x80 {
		count := n & 0x7f
		if count == 0 || count > 3 || len(b) < 2+count || b[2] == 0 {
			return 0, nil, nil, fmt.Errorf("%w: bad length", ErrToken)
		}
		n = 0
		for _, c := range b[2 : 2+count] {
			n = n<<8 | int(c)
		}
		if n < 0x80 {
			return 0, nil, nil, fmt.Errorf("%w: length not in its shortest form", ErrToken)
		}
		head += count
	}
	if n > len(b)-head {
		return 0, nil, nil, fmt.Errorf("%w: element longer than the token", ErrToken)
	}
	return tag, b[head : head+n : head+n], b[head+n:], nil
}

// expect takes an element that must have the tag.
func expect(b []byte, want byte) (value, rest []byte, err error) {
	tag, value, rest, err := take(b)
	if err == nil && tag != want {
		err = fmt.Errorf("%w: tag %#x, want %#x", ErrToken, tag, want)
	}
	return value, rest, err
}

// only returns the content of the one element that b must consist of.
func only(b []byte, want byte) ([]byte, error) {
	value, rest, err := expect(b, want)
	if err == nil && len(rest) != 0 {
		err = fmt.Errorf("%w: bytes behind its end", ErrToken)
	}
	return value, err
}

// encodeOID is the content of an OBJECT IDENTIFIER. It panics when s is not one: callers pass constants.
func encodeOID(s string) []byte {
	var out []byte
	first := uint64(0)
	for i, part := range strings.Split(s, ".") {
		v, err := strconv.ParseUint(part, 10, 32)
		if err != nil {
			panic("spnego: bad object identifier " + s)
		}
		switch i {
		case 0:
			first = v * 40
			continue
		case 1:
			v += first
		}
		var digits [5]byte
		n := len(digits)
		for {
			n--
			digits[n] = byte(v&0x7f) | 0x80
			if v >>= 7; v == 0 {
				break
			}
		}
		digits[len(digits)-1] &^= 0x80
		out = append(out, digits[n:]...)
	}
	return out
}
