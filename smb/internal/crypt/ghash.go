package crypt

import (
	"encoding/binary"
	"math/bits"
)

// element is an element of GF(2^128) as GHASH orders its bits: hi holds the first eight
// bytes of the block, big-endian (SP 800-38D 6.3).
type element struct{ hi, lo uint64 }

func loadElement(b []byte) element {
	return element{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}
}

func (e element) store(b []byte) {
	binary.BigEndian.PutUint64(b, e.hi)
	binary.BigEndian.PutUint64(b[8:], e.lo)
}

func (e element) add(f element) element { return element{e.hi ^ f.hi, e.lo ^ f.lo} }

// mul is the product of e and f, in constant time where integer multiplication is. It uses Thomas Pornin's
// method: in integer products of numbers with zeros between their bits no carry reaches the next used bit,
// and the upper half of a product is that of reversed factors.
func (e element) mul(f element) element {
	er0, er1 := bits.Reverse64(e.lo), bits.Reverse64(e.hi)
	fr0, fr1 := bits.Reverse64(f.lo), bits.Reverse64(f.hi)

	z0, z1 := mulLow(e.lo, f.lo), mulLow(e.hi, f.hi)
	z2 := mulLow(e.lo^e.hi, f.lo^f.hi) ^ z0 ^ z1
	h0, h1 := mulLow(er0, fr0), mulLow(er1, fr1)
	h2 := mulLow(er0^er1, fr0^fr1) ^ h0 ^ h1
	h0, h1, h2 = bits.Reverse64(h0)>>1, bits.Reverse64(h1)>>1, bits.Reverse64(h2)>>1

	v0, v1, v2, v3 := z0, h0^z2, z1^h2, h1
	// the representation is reflected: one more bit to the left
	v3, v2, v1, v0 = v3<<1|v2>>63, v2<<1|v1>>63, v1<<1|v0>>63, v0<<1
	// reduce by x^128 + x^7 + x^2 + x + 1
	v2 ^= v0 ^ v0>>1 ^ v0>>2 ^ v0>>7
	v1 ^= v0<<63 ^ v0<<62 ^ v0<<57
	v3 ^= v1 ^ v1>>1 ^ v1>>2 ^ v1>>7
	v2 ^= v1<<63 ^ v1<<62 ^ v1<<57
	return element{v3, v2}
}

// mulLow is the low half of the carry-less product of x and y.
func mulLow(x, y uint64) uint64 {
	const m0, m1, m2, m3 = 0x1111111111111111, 0x2222222222222222, 0x4444444444444444, 0x8888888888888888
	x0, x1, x2, x3 := x&m0, x&m1, x&m2, x&m3
	y0, y1, y2, y3 := y&m0, y&m1, y&m2, y&m3
	z0 := x0*y0 ^ x1*y3 ^ x2*y2 ^ x3*y1
	z1 := x0*y1 ^ x1*y0 ^ x2*y3 ^ x3*y2
	z2 := x0*y2 ^ x1*y1 ^ x2*y0 ^ x3*y3
	z3 := x0*y3 ^ x1*y2 ^ x2*y1 ^ x3*y0
	return z0&m0 | z1&m1 | z2&m2 | z3&m3
}
