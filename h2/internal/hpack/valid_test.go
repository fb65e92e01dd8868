package hpack

import (
	"testing"

	"golang.org/x/net/http/httpguts"
)

// Names consist of the characters that httpguts has for tokens, without capital letters.
func TestNameBytes(t *testing.T) {
	for i := range 256 {
		b := byte(i)
		if want := httpguts.IsTokenRune(rune(b)) && (b < 'A' || b > 'Z'); isNameByte(b) != want {
			t.Errorf("%q: %t, want %t", b, !want, want)
		}
	}
}
