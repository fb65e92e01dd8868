package contracts

import (
	"dep"

	"github.com/tarn-go/tarn"
)

func with[T any](x T, f func(T)) { f(x) }

func withLength[T any](x T, n int, f func(int, T) error) error {
	if n < 0 {
		n = 0
	}
	return f(n, x)
}

func each[T any](xs []T, f func(T)) {
	for _, x := range xs {
		f(x)
	}
}

func withBuffer(b tarn.Buffer, f func(tarn.Buffer)) {
	if b.Len() > 3 {
		b.Bytes()[0] = 1
	}
	f(b)
}

type onBuffer func(tarn.Buffer)

func eachBuffer(h onBuffer, bufs ...tarn.Buffer) {
	println(len(bufs))
	for _, b := range bufs {
		h(b)
	}
}

func withChain(c *tarn.Chain, f func(*tarn.Chain)) { f(c) }

func done(b tarn.Buffer) { b.Free() }

func callbackFrees(p *tarn.Pool) {
	b := p.Get(10)
	with(b, func(b tarn.Buffer) { b.Free() })
	b.Free() // want `double free: b was freed at line \d+`
}

func callbackIsExpression(p *tarn.Pool) {
	b := p.Get(10)
	with(b, tarn.Buffer.Free)
	_ = b.Bytes() // want `use after free: b was freed`
}

func callbackLooks(p *tarn.Pool) {
	b := p.Get(10) // want `leak: b from p.Get is not freed`
	with(b, func(b tarn.Buffer) { _ = b.Bytes() })
}

func callbackLooksOnly(p *tarn.Pool) {
	b := p.Get(10)
	with(b, func(b tarn.Buffer) { _ = b.Bytes() })
	b.Free()
}

func callbackIsNamed(p *tarn.Pool) {
	b := p.Get(10)
	with(b, done)
	b.Free() // want `double free`
}

func callbackIsNamedLater(p *tarn.Pool) {
	b := p.Get(10)
	with(b, doneLater)
	b.Free() // want `double free`
}

func doneLater(b tarn.Buffer) { b.Free() }

func callbackOfVariable(p *tarn.Pool) {
	b := p.Get(10)
	cb := func(b tarn.Buffer) { b.Free() }
	with(b, cb)
	b.Free() // want `double free`
}

func callbackCaptures(p *tarn.Pool) (total int) {
	b := p.Get(10)
	withBuffer(b, func(b tarn.Buffer) { total += len(b.Bytes()); b.Free() })
	return total + len(b.Bytes()) // want `use after free`
}

func callbackIsValue(p *tarn.Pool, c *tarn.Chain) {
	b := p.Get(10)
	withBuffer(b, c.Append)
	b.Free() // want `use after free: withBuffer took ownership of b`
}

func callbackSecondArgument(p *tarn.Pool) error {
	b := p.Get(10)
	err := withLength(b, 3, func(n int, b tarn.Buffer) error { b.Free(); return nil })
	b.Free() // want `double free`
	return err
}

func callbackEach(p *tarn.Pool) {
	a, b := p.Get(10), p.Get(20)
	each([]tarn.Buffer{a, b}, func(b tarn.Buffer) { b.Free() })
	_ = a.Bytes() // want `use after free`
	b.Free()      // want `double free`
}

func callbackEachLooks(p *tarn.Pool) {
	a := p.Get(10) // want `leak: a from p.Get is not freed`
	eachBuffer(func(b tarn.Buffer) { _ = b.Bytes() }, a)
}

func callbackEachVariadic(p *tarn.Pool) {
	a := p.Get(10)
	eachBuffer(done, a)
	a.Free() // want `double free`
}

func callbackElsewhere(p *tarn.Pool) {
	a, b := p.Get(10), p.Get(20)
	dep.With(a, tarn.Buffer.Free)
	dep.Each([]tarn.Buffer{b}, func(_ int, b tarn.Buffer) { b.Free() })
	a.Free() // want `double free`
	b.Free() // want `double free`
}

func callbackOfChain(p *tarn.Pool, c *tarn.Chain) []byte {
	views, err := c.Peek(10, nil)
	if err != nil {
		return nil
	}
	withChain(c, func(c *tarn.Chain) { c.Free() })
	return append([]byte(nil), views[0]...) // want `use after free`
}

func callbackChainFilled(p *tarn.Pool) {
	var c tarn.Chain
	c.Append(p.Get(1)) // want `leak`
	withChain(&c, func(c *tarn.Chain) { _ = c.Len() })
}

type counted[T any] struct{ n int }

func (c *counted[T]) visit(x T, f func(T)) { c.n++; f(x) }

func callbackOfMethod(p *tarn.Pool) {
	var c counted[tarn.Buffer]
	b := p.Get(10)
	c.visit(b, tarn.Buffer.Free)
	b.Free() // want `double free`
}

// No mistakes, or none that are certain.

func sometimes[T any](x T, n int, f func(T)) {
	if n > 3 {
		f(x)
	}
}

func whileIn[T any](x T, f func(T) bool) {
	for f(x) {
	}
}

func eachUntil[T any](xs []T, f func(T)) {
	for i, x := range xs {
		if i == 3 {
			break
		}
		f(x)
	}
}

func eachOther[T any](xs []T, ys []int, f func(T)) {
	for i := range ys {
		f(xs[i])
	}
}

func stored[T any](x T, to *[]T, f func(T)) {
	*to = append(*to, x)
	f(x)
}

func thenFrees(b tarn.Buffer, f func(tarn.Buffer)) {
	f(b)
	b.Free()
}

func later[T any](x T, f func(T)) { go f(x) }

func twice[T any](x T, f func(a, b T)) { f(x, x) }

func callbackUnknown(p *tarn.Pool, f func(tarn.Buffer)) {
	b := p.Get(10)
	with(b, f)
}

func callbackChosen(p *tarn.Pool, free bool) {
	b := p.Get(10)
	f := func(b tarn.Buffer) { _ = b.Bytes() }
	if free {
		f = tarn.Buffer.Free
	}
	with(b, f)
	if !free {
		b.Free()
	}
}

func callbackSometimes(p *tarn.Pool, n int) {
	b := p.Get(10)
	sometimes(b, n, tarn.Buffer.Free)
	if n <= 3 {
		b.Free()
	}
}

func callbackUntil(p *tarn.Pool) {
	b := p.Get(10)
	eachUntil([]tarn.Buffer{b}, func(b tarn.Buffer) { b.Free() })
}

func callbackOther(p *tarn.Pool) {
	b := p.Get(10)
	eachOther([]tarn.Buffer{b}, nil, tarn.Buffer.Free)
	b.Free()
}

func callbackWhile(p *tarn.Pool) {
	b := p.Get(10)
	whileIn(b, func(b tarn.Buffer) bool { b.Free(); return false })
}

func callbackStored(p *tarn.Pool, list *[]tarn.Buffer) {
	stored(p.Get(10), list, func(b tarn.Buffer) { _ = b.Bytes() })
}

func callbackBefore(p *tarn.Pool) {
	thenFrees(p.Get(10), func(b tarn.Buffer) { _ = b.Bytes() })
}

func callbackLater(p *tarn.Pool) {
	later(p.Get(10), func(b tarn.Buffer) { b.Free() })
	later(p.Get(10), func(b tarn.Buffer) { _ = b.Bytes() })
}

func callbackTwice(p *tarn.Pool) {
	twice(p.Get(10), func(a, b tarn.Buffer) { _ = a.Bytes(); b.Free() })
}

func callbackTakesOnce(p *tarn.Pool, n int, kept chan tarn.Buffer) {
	with(p.Get(10), func(b tarn.Buffer) { kept <- b })
	with(p.Get(10), func(b tarn.Buffer) {
		if n > 0 {
			b.Free()
		} else {
			kept <- b
		}
	})
	with(p.Get(10), tarn.Buffer.Free)
	each([]tarn.Buffer{p.Get(1), p.Get(2)}, tarn.Buffer.Free)
	dep.Each([]tarn.Buffer{p.Get(1)}, func(_ int, b tarn.Buffer) { b.Free() })
	with(p, func(p *tarn.Pool) { p.Get(1).Free() })
	with([]tarn.Buffer{p.Get(1)}, func(list []tarn.Buffer) {
		for _, b := range list {
			b.Free()
		}
	})
}

func callbackOfMany(p *tarn.Pool, n int) {
	var list []tarn.Buffer
	for range n {
		list = append(list, p.Get(1))
	}
	each(list, func(b tarn.Buffer) { _ = b.Bytes() })
	each(list, tarn.Buffer.Free)
}

func callbackOfArray(p *tarn.Pool, n int) {
	var bufs [4]tarn.Buffer
	for i := range bufs {
		bufs[i] = p.Get(n)
	}
	each(bufs[:], func(b tarn.Buffer) { _ = b.Bytes() })
	each(bufs[:2], tarn.Buffer.Free)
	each(bufs[2:], tarn.Buffer.Free)
}
func callbackOfParts(p *tarn.Pool) {
	bufs := []tarn.Buffer{p.Get(1), p.Get(2), p.Get(3)}
	each(bufs[:1], tarn.Buffer.Free)
	each(bufs[1:], tarn.Buffer.Free)
}
func callbackOfPart(p *tarn.Pool) {
	a, b := p.Get(1), p.Get(2)
	bufs := []tarn.Buffer{a, b}
	each(bufs[:1], tarn.Buffer.Free)
	b.Free()
}
func callbackOfFirst(p *tarn.Pool, n int) {
	var list []tarn.Buffer
	for range n {
		list = append(list, p.Get(1))
	}
	each(list[:1], tarn.Buffer.Free)
	for _, b := range list[1:] {
		b.Free()
	}
}
func callbackInLoop(p *tarn.Pool, n int) {
	var list []tarn.Buffer
	for range n {
		list = append(list, p.Get(1))
		if len(list) == 3 {
			each(list, tarn.Buffer.Free)
			list = list[:0]
		}
	}
	each(list, tarn.Buffer.Free)
}

func callbackOfVariablePart(p *tarn.Pool, n int) {
	a, b := p.Get(1), p.Get(2)
	bufs := []tarn.Buffer{a, b}
	if n > 3 {
		bufs = bufs[:1]
	}
	each(bufs, tarn.Buffer.Free)
	if n > 3 {
		b.Free()
	}
}

func callbackAssigns(p *tarn.Pool) {
	b := p.Get(10)
	with(b, func(x tarn.Buffer) { b = x.Narrow(0, 3) })
	b.Free()
}

func callbackDeferred(p *tarn.Pool) {
	b := p.Get(10)
	defer with(b, tarn.Buffer.Free)
	_ = b.Bytes()
}
