package quiet

import (
	"fmt"

	"github.com/tarn-go/tarn"
)

// A reference and its bytes kept together: they end together.
type parsed struct {
	b    tarn.Buffer
	head []byte
}

func (h *parsed) free() {
	h.b.Free()
	h.b, h.head = tarn.Buffer{}, nil
}

type parser struct {
	last *parsed
	all  []parsed
}

func (r *parser) add(p *tarn.Pool) {
	b := p.Get(10)
	r.all = append(r.all, parsed{b: b, head: b.Bytes()})
}

func (r *parser) free() {
	for i := range r.all {
		r.all[i].free()
	}
}

func collectParsed(p *tarn.Pool, to []parsed) []parsed {
	b := p.Get(10)
	return append(to, parsed{b, b.Bytes()})
}

func freeParsed(p *tarn.Pool) {
	var all []parsed
	for range 3 {
		b := p.Get(10)
		all = append(all, parsed{b, b.Bytes()})
	}
	for i := range all {
		fmt.Println(all[i].head[0])
		all[i].free()
	}
}

func (h *parsed) reparse() {
	h.head = h.b.Bytes()[1:]
	h.b.Free()
}

func (r *parser) drop() {
	r.last.head = r.last.b.Bytes()
	r.last.b.Free()
	r.last = nil
}

func (r *parser) take() {
	b := r.last.b
	r.last.head = b.Bytes()
	r.last = nil
	b.Free()
}

// A struct that a method returns is the one that its caller has.
type outcome struct {
	b   tarn.Buffer
	err error
}

func (o outcome) checked() outcome {
	if o.b.IsZero() && o.err == nil {
		panic("neither")
	}
	return o
}

func receiveChecked(ch chan outcome) (tarn.Buffer, error) {
	o := <-ch
	o.checked()
	return o.b, o.err
}

func receiveCheckedAtOnce(ch chan outcome) (tarn.Buffer, error) {
	o := (<-ch).checked()
	if o.err != nil {
		return tarn.Buffer{}, o.err
	}
	return o.b, nil
}
