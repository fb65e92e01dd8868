package proto

import "encoding/binary"

var le = binary.LittleEndian

// slice is b[off:off+n] when that lies within b. The sum is computed in 64 bits, so that it cannot overflow.
func slice(b []byte, off, n uint32) ([]byte, bool) {
	end := uint64(off) + uint64(n)
	if end > uint64(len(b)) {
		return nil, false
	}
	return b[off:end:end], true
}

// variable is a variable part of msg that must lie behind the first min bytes of it.
// An empty one may state any offset: servers leave zero there.
func variable(msg []byte, off, n, min uint32) ([]byte, bool) {
	if n == 0 {
		return nil, true
	}
	if off < min {
		return nil, false
	}
	return slice(msg, off, n)
}

// body checks that msg holds a header and a body of at least fixed bytes whose
// StructureSize is size, and returns the body.
func body(msg []byte, message string, size uint16, fixed int) ([]byte, error) {
	if len(msg) < HeaderSize+fixed {
		return nil, malformed(message, reasonShort)
	}
	b := msg[HeaderSize:]
	if le.Uint16(b) != size {
		return nil, malformed(message, reasonSize)
	}
	return b, nil
}

// isSize reports whether n can be the length of a file: lengths are signed (MS-FSCC 2.4).
func isSize(n uint64) bool { return n < 1<<63 }

// pad appends zeros until len(dst)-base is a multiple of 8.
func pad(dst []byte, base int) []byte {
	for (len(dst)-base)&7 != 0 {
		dst = append(dst, 0)
	}
	return dst
}

func align8(n int) int { return (n + 7) &^ 7 }

func appendZeros(dst []byte, n int) []byte {
	for range n {
		dst = append(dst, 0)
	}
	return dst
}
