package copied

import "github.com/tarn-go/tarn"

func variable(p *tarn.Pool) {
	var c tarn.Chain
	c.Append(p.Get(10))
	d := c
	d.Free()
	c.Free() // want `copy: c was copied by value at line \d+ and is used again here`
}

func argument(c *tarn.Chain) {
	consume(*c)
	c.Free() // want `use after free: consume took ownership of c at line \d+, and it is freed here`
}

func moved(c *tarn.Chain) tarn.Chain {
	out := *c
	*c = tarn.Chain{}
	c.Len()
	return out
}

func swapped(a, b *tarn.Chain) {
	*a, *b = *b, *a
	a.Len()
	b.Len()
}

func emptyChain() {
	var a tarn.Chain
	b := a
	_ = b.Len()
	_ = a.Len()
}

// consume takes ownership of c.
func consume(c tarn.Chain) { c.Free() }
