package jsonpb

import (
	"bytes"
	"encoding/base64"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// scalar reads a number, boolean or enum.
func (r *reader) scalar(f *field) (v uint64, ok bool) {
	r.space()
	switch f.number {
	case boolean:
		return r.boolean()
	case single:
		return r.float(32)
	case double:
		return r.float(64)
	case enumerated:
		return r.enum(f)
	}
	return r.integer(f)
}

func (r *reader) boolean() (v uint64, ok bool) {
	if r.literal("true") {
		return 1, true
	}
	return 0, r.literal("false")
}

// integer reads an integer, which may be in quotes, without a fraction or an exponent.
func (r *reader) integer(f *field) (v uint64, ok bool) {
	if !r.literal(`"`) {
		return r.decimal(f)
	}
	v, ok = r.decimal(f)
	return v, ok && r.literal(`"`)
}

// decimal reads the digits of an integer.
func (r *reader) decimal(f *field) (uint64, bool) {
	negative := f.number != unsigned && r.literal("-")
	from := r.at
	n := r.digits()
	if n > 1 && r.text[from] == '0' || r.at < len(r.text) && fractional(r.text[r.at]) {
		return 0, false
	}
	v, err := strconv.ParseUint(string(r.text[from:r.at]), 10, 64)
	if negative {
		return -v, err == nil && v <= f.max+1
	}
	return v, err == nil && v <= f.max
}

// fractional reports whether a number goes on with c.
func fractional(c byte) bool { return c == '.' || c == 'e' || c == 'E' }

// enum reads an enum's name or number.
func (r *reader) enum(f *field) (uint64, bool) {
	if f.nullable {
		return 0, false
	}
	if r.at < len(r.text) && r.text[r.at] != '"' {
		return r.decimal(f)
	}
	name, ok := r.quoted()
	if !ok {
		return 0, false
	}
	v, ok := f.enum.numbers[string(name)]
	return uint64(v), ok
}

// float reads a number of 32 or 64 bits, and returns its bits.
func (r *reader) float(size int) (uint64, bool) {
	var v float64
	switch {
	case r.literal(`"NaN"`):
		v = math.NaN()
	case r.literal(`"Infinity"`):
		v = math.Inf(1)
	case r.literal(`"-Infinity"`):
		v = math.Inf(-1)
	default:
		from := r.at
		if !r.number() {
			return 0, false
		}
		var err error
		if v, err = strconv.ParseFloat(string(r.text[from:r.at]), size); err != nil {
			return 0, false
		}
	}
	if size == 32 {
		return uint64(math.Float32bits(float32(v))), true
	}
	return math.Float64bits(v), true
}

// bytes reads base64, with padding.
func (r *reader) bytes() bool {
	src, ok := r.quoted()
	if !ok || len(src)%4 != 0 {
		return false
	}
	size := len(src) / 4 * 3
	switch {
	case bytes.HasSuffix(src, []byte("==")):
		size -= 2
	case bytes.HasSuffix(src, []byte("=")):
		size--
	}
	r.reserve(base64.StdEncoding.DecodedLen(len(src)) + fixedLen)
	r.b = protowire.AppendVarint(r.b, uint64(size))
	m, err := base64.StdEncoding.Decode(r.b[len(r.b):cap(r.b)], src)
	r.b = r.b[:len(r.b)+m]
	return err == nil && m == size // fewer were decoded if there were line breaks
}

// string reads a string, and returns where its content begins, negative if it could not.
func (r *reader) string() int {
	if !r.skip('"') {
		return -1
	}
	rest := r.text[r.at:]
	n := special(rest, nonASCII)
	if n == len(rest) {
		return -1
	}
	if rest[n] == '"' {
		r.at += n + 1
		r.reserve(n + fixedLen)
		r.b = protowire.AppendVarint(r.b, uint64(n))
		r.b = append(r.b, rest[:n]...)
		return len(r.b) - n
	}
	at := r.open()
	from := len(r.b)
	for {
		n := special(rest, 0)
		if n == len(rest) {
			return -1
		}
		r.reserve(n + fixedLen)
		r.b = append(r.b, rest[:n]...)
		rest = rest[n:]
		switch rest[0] {
		case '"':
			r.at = len(r.text) - len(rest) + 1
			if !utf8.Valid(r.b[from:]) || !r.close(at) {
				return -1
			}
			return from
		case '\\':
			if n = r.unescape(rest); n == 0 {
				return -1
			}
			rest = rest[n:]
		default:
			return -1
		}
	}
}

// unescape reads an escaped character, and returns the length of its escape, 0 if it is not valid.
func (r *reader) unescape(s []byte) int {
	if len(s) < 2 {
		return 0
	}
	c := s[1]
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		first, n := unicode(s), 6
		if utf16.IsSurrogate(first) {
			if first = utf16.DecodeRune(first, unicode(s[6:])); first == utf8.RuneError {
				return 0
			}
			n = 12
		}
		if first < 0 {
			return 0
		}
		r.b = utf8.AppendRune(r.b, first)
		return n
	default:
		return 0
	}
	r.b = append(r.b, c)
	return 2
}

// unicode returns the number of an escape like \u00e9, negative if s does not begin with one.
func unicode(s []byte) rune {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return -1
	}
	var v rune
	for _, c := range s[2:6] {
		switch {
		case c-'0' <= 9:
			c -= '0'
		case c|0x20-'a' < 6:
			c = c | 0x20 - 'a' + 10
		default:
			return -1
		}
		v = v<<4 | rune(c)
	}
	return v
}
