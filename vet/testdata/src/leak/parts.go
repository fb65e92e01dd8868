package leak

import "github.com/tarn-go/tarn"

type halves struct{ head, body tarn.Buffer }

func oneHalfFreed(p *tarn.Pool) {
	h := halves{p.Get(1), p.Get(2)} // want `leak: the reference from p.Get is not freed when the function ends`
	h.head.Free()
}

func bothHalvesFreed(p *tarn.Pool) {
	h := halves{p.Get(1), p.Get(2)}
	h.head.Free()
	h.body.Free()
}

func halfReplaced(p *tarn.Pool) {
	h := halves{p.Get(1), p.Get(2)} // want `leak: the reference from p.Get`
	h.head = p.Get(3)
	h.head.Free()
	h.body.Free()
}

func copiedHalves(p *tarn.Pool) {
	h := halves{p.Get(1), p.Get(2)}
	other := h
	other.head.Free()
	h.body.Free()
}

func keptHalves(p *tarn.Pool, to []halves) {
	h := halves{p.Get(1), p.Get(2)}
	h.head.Free()
	h.head = tarn.Buffer{}
	to[0] = h
}

func returnedHalves(p *tarn.Pool) halves {
	h := halves{body: p.Get(2)}
	h.head = p.Get(1)
	return h
}

func sentHalves(p *tarn.Pool, to chan halves) {
	for range 3 {
		h := halves{p.Get(1), p.Get(2)}
		if h.head.Len() > 1 {
			h.head.Free()
			h.head = p.Get(1)
		}
		to <- h
	}
}

// The bytes beside it do not hide a reference.
func besideItsBytes(p *tarn.Pool, ok bool) []withBytes {
	b := p.Get(10) // want `leak: b from p\.Get is not freed on the path that returns at line \d+ \(where the condition at line \d+ is false\)`
	list := []withBytes{{b, b.Bytes()}}
	if !ok {
		return nil
	}
	return list
}

func (w *withBytes) free() { w.b.Free() }

type withBytes struct {
	b tarn.Buffer
	v []byte
}
