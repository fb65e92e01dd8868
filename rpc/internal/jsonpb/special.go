package jsonpb

import (
	"encoding/binary"
	"math/bits"
)

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
	// nonASCII makes special find bytes above 0x7f, too.
	nonASCII = highs
)

// special returns the index of the first byte of s that does not stand for itself in a JSON string, a quote, a
// backslash or a control character, and len(s) without one. It compares eight bytes at a time.
func special(s []byte, also uint64) int {
	i := 0
	for ; i+8 <= len(s); i += 8 {
		x := binary.LittleEndian.Uint64(s[i:])
		quote, slash := x^'"'*ones, x^'\\'*ones
		// The lowest byte that is found has its high bit set, and none below it has.
		found := ((x-0x20*ones)&^x | (quote-ones)&^quote | (slash-ones)&^slash) & highs
		if found |= x & also; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' || c&byte(also) != 0 {
			break
		}
	}
	return i
}
