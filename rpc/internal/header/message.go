package header

import (
	"strings"
	"unicode/utf8"
)

const upperHex = "0123456789ABCDEF"

// plain reports whether the byte of msg at i needs no escape in grpc-message: printable ASCII except the percent
// sign and a blank at either end. RFC 9113 section 8.2.1 forbids such a blank: peers remove it, or refuse the field.
func plain(msg string, i int) bool {
	c := msg[i]
	return c > ' ' && c <= '~' && c != '%' || c == ' ' && i > 0 && i < len(msg)-1
}

// EncodeMessage returns the percent-encoded form of a status message. Bytes that are not UTF-8 become the
// replacement character, as in other gRPC implementations, so that the peer always decodes valid text.
func EncodeMessage(msg string) string {
	i := 0
	for i < len(msg) && plain(msg, i) {
		i++
	}
	if i == len(msg) {
		return msg
	}
	var b strings.Builder
	b.Grow(len(msg) + 16)
	b.WriteString(msg[:i])
	for j, r := range msg[i:] {
		if r < utf8.RuneSelf && plain(msg, i+j) {
			b.WriteByte(byte(r))
			continue
		}
		var enc [utf8.UTFMax]byte
		for _, c := range enc[:utf8.EncodeRune(enc[:], r)] {
			b.WriteByte('%')
			b.WriteByte(upperHex[c>>4])
			b.WriteByte(upperHex[c&15])
		}
	}
	return b.String()
}

// DecodeMessage reverses EncodeMessage. It never fails: a truncated or non-hexadecimal escape is kept as it
// is, as the protocol demands.
func DecodeMessage(msg string) string {
	if strings.IndexByte(msg, '%') < 0 {
		return msg
	}
	var b strings.Builder
	b.Grow(len(msg))
	for i := 0; i < len(msg); i++ {
		if msg[i] == '%' && i+2 < len(msg) {
			hi, ok1 := unhex(msg[i+1])
			lo, ok2 := unhex(msg[i+2])
			if ok1 && ok2 {
				b.WriteByte(hi<<4 | lo)
				i += 2
				continue
			}
		}
		b.WriteByte(msg[i])
	}
	return b.String()
}

func unhex(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}
