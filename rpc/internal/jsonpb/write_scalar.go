package jsonpb

import (
	"encoding/base64"
	"math"
	"strconv"
	"unicode/utf8"
)

// scalar writes a number, boolean or enum.
func (w *writer) scalar(f *field, v uint64) {
	if f.quoted {
		w.b = append(w.b, '"')
	}
	switch f.number {
	case boolean:
		w.b = strconv.AppendBool(w.b, v != 0)
	case unsigned:
		w.b = strconv.AppendUint(w.b, v, 10)
	case signed:
		w.b = strconv.AppendInt(w.b, int64(v), 10)
	case single:
		w.float(float64(math.Float32frombits(uint32(v))), 32)
	case double:
		w.float(math.Float64frombits(v), 64)
	case enumerated:
		w.enum(f, int64(v))
	}
	if f.quoted {
		w.b = append(w.b, '"')
	}
}

// enum writes an enum by its name, or by its number if it has none.
func (w *writer) enum(f *field, n int64) {
	name := f.enum.names[int32(n)]
	w.reserve(len(name) + fixedLen)
	switch {
	case f.nullable:
		w.b = append(w.b, "null"...)
	case name == nil:
		w.b = strconv.AppendInt(w.b, n, 10)
	default:
		w.b = append(w.b, name...)
	}
}

// float writes v as encoding/json and protojson do.
func (w *writer) float(v float64, size int) {
	switch {
	case math.IsNaN(v):
		w.b = append(w.b, `"NaN"`...)
		return
	case math.IsInf(v, 1):
		w.b = append(w.b, `"Infinity"`...)
		return
	case math.IsInf(v, -1):
		w.b = append(w.b, `"-Infinity"`...)
		return
	}
	format := byte('f')
	abs := math.Abs(v)
	small, large := abs < 1e-6, abs >= 1e21
	if size == 32 {
		small, large = float32(abs) < 1e-6, float32(abs) >= 1e21
	}
	if abs != 0 && (small || large) {
		format = 'e'
	}
	w.b = strconv.AppendFloat(w.b, v, format, -1, size)
	if n := len(w.b); format == 'e' && w.b[n-4] == 'e' && w.b[n-3] == '-' && w.b[n-2] == '0' { // e-09 is e-9
		w.b[n-2] = w.b[n-1]
		w.b = w.b[:n-1]
	}
}

func (w *writer) base64(data []byte) {
	w.reserve(base64.StdEncoding.EncodedLen(len(data)) + fixedLen)
	w.b = append(w.b, '"')
	w.b = base64.StdEncoding.AppendEncode(w.b, data)
	w.b = append(w.b, '"')
}

// text writes a string in quotes. It reports whether s is valid UTF-8.
func (w *writer) text(s []byte) bool {
	w.reserve(len(s) + fixedLen)
	w.b = append(w.b, '"')
	n := special(s, nonASCII)
	w.b = append(w.b, s[:n]...)
	if n < len(s) {
		if s = s[n:]; !utf8.Valid(s) {
			return false
		}
		w.escaped(s)
	}
	w.b = append(w.b, '"')
	return true
}

// escaped writes what has to be escaped, and the rest as it is.
func (w *writer) escaped(s []byte) {
	for {
		n := special(s, 0)
		w.reserve(n + fixedLen)
		w.b = append(w.b, s[:n]...)
		if n == len(s) {
			return
		}
		w.b = append(w.b, '\\')
		switch c := s[n]; c {
		case '"', '\\':
			w.b = append(w.b, c)
		case '\b':
			w.b = append(w.b, 'b')
		case '\f':
			w.b = append(w.b, 'f')
		case '\n':
			w.b = append(w.b, 'n')
		case '\r':
			w.b = append(w.b, 'r')
		case '\t':
			w.b = append(w.b, 't')
		default:
			const hex = "0123456789abcdef"
			w.b = append(w.b, 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		s = s[n+1:]
	}
}
