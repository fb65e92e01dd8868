package use

import (
	"fmt"

	"github.com/tarn-go/tarn"
)

type table struct {
	by     map[string]tarn.Buffer
	nested map[string]map[int]tarn.Buffer
}

func ofMap(m map[string]tarn.Buffer, k string) {
	m[k].Free()
	fmt.Println(m[k].Bytes()) // want `use after free: m\[k\] was freed at line \d+ and is used here`
}

func takenFromMap(m map[string]tarn.Buffer, k string) {
	b := m[k]
	b.Free()
	m[k].Free() // want `double free: m\[k\] was freed at line \d+ already`
}

func (t *table) field() {
	t.by["a"].Free()
	t.by["a"].Free() // want `double free: t\.by\["a"\] was freed at line \d+ already`
}

func (t *table) inner(k string) {
	t.nested[k][1].Free()
	fmt.Println(t.nested[k][1].Bytes()) // want `use after free: t\.nested\[k\]\[1\] was freed at line \d+`
}

func innerOverwritten(p *tarn.Pool, m map[int]map[int]tarn.Buffer) {
	m[1][2] = p.Get(10)
	m[1][2] = p.Get(20) // want `leak: .* is overwritten without having been freed or moved elsewhere`
}

func bytesInMap(p *tarn.Pool) {
	b := p.Get(10)
	m := map[int][]byte{}
	m[1] = b.Bytes()
	b.Free()
	fmt.Println(m[1][0]) // want `use after free: these are bytes of b, which was freed at line \d+`
}

// These are other elements, or may be.
func (t *table) correct(p *tarn.Pool, k, other string) {
	t.by[k].Free()
	t.by[other].Free()
	t.by[k] = p.Get(10)
	t.by[k].Free()
	delete(t.by, k)
	t.by[k].Free()
	t.refill()
	t.by[k].Free()
	t.nested[k][1].Free()
	t.nested[k] = map[int]tarn.Buffer{}
	t.nested[k][1].Free()
	for k := range t.by {
		t.by[k].Free()
	}
}

func (t *table) refill() { t.by = map[string]tarn.Buffer{} }

func innerReplaced(p *tarn.Pool, m map[int]map[int]tarn.Buffer) {
	m[1][2] = p.Get(10)
	m[3] = m[1]
	m[1] = map[int]tarn.Buffer{}
	m[1][2] = p.Get(20)
}

func bytesOfTwo(p *tarn.Pool) {
	a, b := p.Get(10), p.Get(20)
	m := map[int][]byte{}
	m[1] = a.Bytes()
	m[2] = b.Bytes()
	a.Free()
	fmt.Println(m[2][0])
	b.Free()
}
