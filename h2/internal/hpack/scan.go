package hpack

// maxInt is the length in bytes of the longest integer that scanInt reads.
const maxInt = 6

// scanInt reads the integer at p[i] with a prefix of n bits and returns where it
// ends; -1 if it does not, or exceeds 35 bits.
func scanInt(p []byte, i int, n uint) (v uint64, end int) {
	limit := byte(1)<<n - 1
	v = uint64(p[i] & limit)
	i++
	if v < uint64(limit) {
		return v, i
	}
	for shift := uint(0); shift < 35; shift += 7 {
		if i >= len(p) {
			return 0, -1
		}
		b := p[i]
		i++
		v += uint64(b&0x7f) << shift
		if b&0x80 == 0 {
			return v, i
		}
	}
	return 0, -1
}

// completePart returns how many bytes of p are complete representations.
func completePart(p []byte) int {
	for i := 0; ; {
		n := representationLen(p[i:])
		if n == 0 {
			return i
		}
		i += n
	}
}

// representationLen returns the length of the representation that p begins with; 0 if
// it is incomplete.
func representationLen(p []byte) int {
	if len(p) == 0 {
		return 0
	}
	prefix, strings := uint(4), 1 // literal
	switch b := p[0]; {
	case b&0x80 != 0: // indexed
		prefix, strings = 7, 0
	case b&0x40 != 0: // literal, to be indexed
		prefix = 6
	case b&0x20 != 0: // table size update
		prefix, strings = 5, 0
	}
	v, i := scanInt(p, 0, prefix)
	if i < 0 {
		return 0
	}
	if strings == 1 && v == 0 {
		strings = 2
	}
	for ; strings > 0; strings-- {
		if i >= len(p) {
			return 0
		}
		var n uint64
		if n, i = scanInt(p, i, 7); i < 0 || n > uint64(len(p)-i) {
			return 0
		}
		i += int(n)
	}
	return i
}
