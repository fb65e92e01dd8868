package crypt

import (
	"math/rand/v2"
	"testing"
)

// mulSlow is the multiplication as SP 800-38D 6.3 writes it down.
func mulSlow(x, y element) element {
	var z element
	v := y
	for i := range 128 {
		word := x.hi
		if i >= 64 {
			word = x.lo
		}
		if word>>(63-i%64)&1 == 1 {
			z = z.add(v)
		}
		odd := v.lo & 1
		v = element{v.hi >> 1, v.lo>>1 | v.hi<<63}
		if odd == 1 {
			v.hi ^= 0xe1 << 56
		}
	}
	return z
}

func TestMul(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		x, y := element{r.Uint64(), r.Uint64()}, element{r.Uint64(), r.Uint64()}
		if got, want := x.mul(y), mulSlow(x, y); got != want {
			t.Fatalf("%x * %x = %x, want %x", x, y, got, want)
		}
	}
}

func BenchmarkMul(b *testing.B) {
	x, y := element{1, 2}, element{3, 4}
	for b.Loop() {
		x = x.mul(y)
	}
}
