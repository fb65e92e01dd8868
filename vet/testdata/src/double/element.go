package double

import "github.com/tarn-go/tarn"

func oneElement(held []tarn.Buffer, k int) {
	held[k].Free()
	held[k].Free() // want `double free: held\[k\] was freed at line \d+ already`
}

func elementTwice(p *tarn.Pool) {
	var held []tarn.Buffer
	held = append(held, p.Get(1), p.Get(2))
	held[1].Free()
	held[0].Free()
	held[1].Free() // want `double free`
}

func elementAfterFree(held []tarn.Buffer) []byte {
	held[2].Free()
	return held[2].Bytes() // want `use after free`
}

func elementReplaced(held []tarn.Buffer, p *tarn.Pool, i int) {
	held[i].Free()
	held[i] = p.Get(1)
	held[i].Free()
	held[i] = held[len(held)-1]
	held[i].Free()
}

func otherIndex(held []tarn.Buffer, i, j int) {
	held[i].Free()
	held[j].Free()
}

func shifted(held []tarn.Buffer) {
	held[0].Free()
	copy(held, held[1:])
	held[0].Free()
}

func shiftedElsewhere(held []tarn.Buffer, shift func([]tarn.Buffer)) {
	held[0].Free()
	shift(held)
	held[0].Free()
}

func aliased(p *tarn.Pool, i, j int) {
	var held [4]tarn.Buffer
	held[i].Free()
	held[j] = p.Get(1)
	held[i].Free()
	held[i] = tarn.Buffer{}
	for _, b := range held {
		b.Free()
	}
}

func popped(held []tarn.Buffer, n int) []tarn.Buffer {
	for len(held) > n {
		held[len(held)-1].Free()
		held = held[:len(held)-1]
	}
	return held
}

func eachOnce(held []tarn.Buffer) {
	for i := range held {
		held[i].Free()
	}
	for i := 0; i < len(held); i++ {
		held[i] = tarn.Buffer{}
	}
}

type slicer struct {
	pool *tarn.Pool
	rest tarn.Buffer
}

func (c *slicer) next(n int) tarn.Buffer {
	if c.rest.Len() < n {
		c.rest.Free()
		c.rest = c.pool.Get(n)
	}
	var b tarn.Buffer
	b, c.rest = c.rest.Split(n)
	return b
}

func fieldOfLocal(p *tarn.Pool) {
	c := slicer{pool: p}
	c.next(1).Free()
	c.rest.Free()
	c.rest.Free() // want `double free`
}

func fieldOfPointer(g *slicer) {
	g.next(1).Free()
	g.rest.Free()
	g.rest.Free() // want `double free`
}

func empty(b tarn.Buffer) {
	if b.Len() == 0 {
		b.Free()
		b.Free() // want `double free`
		return
	}
	b.Free()
}

func joined(p *tarn.Pool) {
	head, tail := p.Get(10).Split(3)
	head, _ = head.Join(tail)
	head.Free()
	head.Free() // want `double free`
}

func grown(p *tarn.Pool) {
	for _, n := range []int{10, 64} {
		b := p.Get(n)
		b, _ = b.GrowTail(5)
		b.Free()
		b.Free() // want `double free`
	}
}
