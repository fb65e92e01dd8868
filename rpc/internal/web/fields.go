package web

import (
	"iter"
	"strconv"
	"strings"
)

// BareMediaType reports whether a media type has no parameters and needs no other case.
func BareMediaType(s string) bool {
	for i := range len(s) {
		if b := s[i]; b == ';' || b == ' ' || 'A' <= b && b <= 'Z' {
			return false
		}
	}
	return true
}

// Acceptable yields the names in the value of Accept-Encoding, or of a field like it, whose weight is not 0 (RFC 9110 section 12.5.3).
func Acceptable(list string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for part := range strings.SplitSeq(list, ",") {
			name, weight, _ := strings.Cut(part, ";")
			if name = strings.TrimSpace(name); name != "" && !isZero(weight) && !yield(name) {
				return
			}
		}
	}
}

// isZero reports whether a weight ("q=0.0") is 0.
func isZero(weight string) bool {
	q, value, ok := strings.Cut(strings.TrimSpace(weight), "=")
	if !ok || !strings.EqualFold(q, "q") {
		return false
	}
	v, err := strconv.ParseFloat(value, 64)
	return err == nil && v == 0
}

// Accepts reports whether a list of encodings contains one; a client without a list accepts the encoding that
// it sends.
func Accepts(list, name string) bool {
	if list == "" {
		return true
	}
	for a := range Acceptable(list) {
		if strings.EqualFold(a, name) {
			return true
		}
	}
	return false
}
