package double

import "github.com/tarn-go/tarn"

func twice(p *tarn.Pool) {
	b := p.Get(10)
	b.Free()
	b.Free() // want `double free: b was freed at line \d+ already`
}

func deferred(p *tarn.Pool, early bool) {
	b := p.Get(10)
	defer b.Free() // want `double free: b is freed at line \d+, and again by this defer`
	if early {
		b.Free()
	}
}

func deferredLiteral(p *tarn.Pool) {
	b := p.Get(10)
	defer func() { b.Free() }() // want `double free: b is freed at line \d+, and again by this defer`
	b.Free()
}

func deferredTwice(p *tarn.Pool) {
	b := p.Get(10)
	defer b.Free() // want `double free`
	defer b.Free()
}

func onPaths(p *tarn.Pool, a, b bool) {
	x := p.Get(10)
	if a {
		x.Free()
	}
	if b {
		x.Free() // want `double free: x was freed at line \d+ already`
	}
	if !a && !b {
		x.Free()
	}
}

func inLoop(p *tarn.Pool, n int) {
	b := p.Get(10) // want `leak: b from p.Get is not freed when the function ends`
	for range n {
		b.Free() // want `double free: b was freed at line \d+ already`
	}
}

func copyOfHandle(p *tarn.Pool) {
	b := p.Get(10)
	c := b // the same reference
	b.Free()
	c.Free() // want `double free: b was freed at line \d+ already`
}

func elements(held []tarn.Buffer, k int) {
	held[k].Free()
	held[k].Free() // want `double free`
}

type owner struct{ one, two tarn.Buffer }

func (o *owner) reset() {
	o.one.Free()
	o.two.Free()
	o.one.Free() // want `double free: o.one was freed at line \d+ already`
	o.one, o.two = tarn.Buffer{}, tarn.Buffer{}
}

func parameter(b tarn.Buffer) {
	b.Free()
	b.Free() // want `double free: b was freed at line \d+ already`
}
