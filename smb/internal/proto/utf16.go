package proto

import (
	"unicode/utf16"
	"unicode/utf8"
)

// UTF16Len is the length in bytes of s as UTF-16. Each invalid byte of s counts as U+FFFD.
func UTF16Len(s string) int {
	n := 0
	for _, r := range s {
		n += 2
		if r > 0xffff {
			n += 2
		}
	}
	return n
}

// AppendUTF16 appends s as UTF-16LE without a terminator. Each invalid byte of s
// becomes U+FFFD.
func AppendUTF16(dst []byte, s string) []byte {
	for _, r := range s {
		if r > 0xffff {
			hi, lo := utf16.EncodeRune(r)
			dst = le.AppendUint16(dst, uint16(hi))
			r = lo
		}
		dst = le.AppendUint16(dst, uint16(r))
	}
	return dst
}

// AppendUTF8 appends the UTF-16LE text b as UTF-8. A lone surrogate becomes three bytes that are not valid UTF-8, and an odd last byte
// one (WTF-8): different texts never become one string, and utf8.ValidString finds those that UTF-8 cannot express.
func AppendUTF8(dst, b []byte) []byte {
	for len(b) >= 2 {
		r := rune(le.Uint16(b))
		b = b[2:]
		if utf16.IsSurrogate(r) {
			second := rune(0)
			if len(b) >= 2 {
				second = rune(le.Uint16(b))
			}
			pair := utf16.DecodeRune(r, second)
			if pair == utf8.RuneError {
				dst = append(dst, 0xe0|byte(r>>12), 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f)
				continue
			}
			r, b = pair, b[2:]
		}
		dst = utf8.AppendRune(dst, r)
	}
	if len(b) > 0 {
		dst = append(dst, 0xff)
	}
	return dst
}

// DecodeUTF16 is the UTF-16LE text b as a string, as AppendUTF8 converts it. It allocates the string, at most
// one and a half times len(b).
func DecodeUTF16(b []byte) string {
	var scratch [256]byte
	return string(AppendUTF8(scratch[:0], b))
}
