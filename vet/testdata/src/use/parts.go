package use

import "github.com/tarn-go/tarn"

type halves struct{ head, body tarn.Buffer }

func halfUsedAfterAppend(p *tarn.Pool, c *tarn.Chain) byte {
	h := halves{p.Get(1), p.Get(2)}
	c.Append(h.head)
	h.body.Free()
	return h.head.Bytes()[0] // want `use after free: c.Append took ownership of .* at line \d+, and it is used here`
}

func otherHalfUsed(p *tarn.Pool, c *tarn.Chain) byte {
	h := halves{p.Get(1), p.Get(2)}
	defer h.body.Free()
	c.Append(h.head)
	return h.body.Bytes()[0]
}

type holder struct{ in held }

type held struct {
	b tarn.Buffer
	n int
}

func (h *holder) copied() int {
	in := h.in
	h.in.b.Free()
	return len(in.b.Bytes()) // want `use after free: h\.in\.b was freed at line \d+`
}

func (h *holder) copyFreed() {
	in := h.in
	in.b.Free()
	h.in.b.Free() // want `double free: h\.in\.b was freed at line \d+ already`
}

func (h *holder) takenOut() {
	in := h.in
	h.in = held{}
	in.b.Free()
	h.in.b.Free()
}

func (h *holder) replaced(p *tarn.Pool) int {
	old := h.in
	h.in.b = p.Get(10)
	old.b.Free()
	return h.in.b.Len() + len(h.in.b.Bytes())
}

func (h *holder) swapped(other *holder) {
	h.in, other.in = other.in, h.in
	h.in.b.Free()
	other.in.b.Free()
}
