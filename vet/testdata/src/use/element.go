package use

import (
	"fmt"

	"github.com/tarn-go/tarn"
)

func throughElement(p *tarn.Pool) {
	b := p.Get(10)
	list := []tarn.Buffer{b}
	list[0].Free()
	fmt.Println(b.Bytes()) // want `use after free: b was freed at line \d+`
}

func bytesOfElement(p *tarn.Pool) {
	list := []tarn.Buffer{p.Get(10), p.Get(20)}
	v := list[0].Bytes()
	list[0].Free()
	fmt.Println(v[0]) // want `use after free: these are bytes of .*, which was freed at line \d+`
	list[1].Free()
}

func elementOverwritten(p *tarn.Pool) {
	list := make([]tarn.Buffer, 2)
	list[0] = p.Get(10) // want `leak: list\[0\] from p\.Get`
	list[0] = p.Get(20)
	list[0].Free()
}

func bytesInElement(p *tarn.Pool) {
	b := p.Get(10)
	list := make([][]byte, 1)
	list[0] = b.Bytes()
	b.Free()
	fmt.Println(list[0][0]) // want `use after free: these are bytes of b`
}

func elements(p *tarn.Pool, n int) {
	list := []tarn.Buffer{p.Get(10), p.Get(20)}
	for i := range list {
		fmt.Println(list[i].Bytes())
		list[i].Free()
	}
	rest := []tarn.Buffer{p.Get(10), p.Get(20)}
	rest[0].Free()
	rest = rest[1:]
	rest[0].Free()
}

type batch struct{ list []tarn.Buffer }

func (q *batch) free() {
	for _, b := range q.list {
		b.Free()
	}
}

func inStruct(p *tarn.Pool) {
	q := &batch{[]tarn.Buffer{p.Get(10)}}
	q.free()
	list := make([]tarn.Buffer, 2)
	list[0] = p.Get(10)
	r := &batch{list}
	r.free()
}

func moved(p *tarn.Pool, out chan []tarn.Buffer) {
	list := make([]tarn.Buffer, 2)
	list[0], list[1] = p.Get(10), p.Get(20)
	list[0].Free()
	list = append(list[:0], list[1:]...)
	out <- list
}
