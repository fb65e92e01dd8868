package escape

import "github.com/tarn-go/tarn"

type holder struct{ view []byte }

func returned(p *tarn.Pool) []byte {
	b := p.Get(10)
	defer b.Free()
	return b.Bytes() // want `escape: bytes of b are returned, but it was freed at line \d+`
}

func partReturned(p *tarn.Pool) []byte {
	b := p.Get(10)
	view := b.Bytes()[2:4]
	b.Free()
	return view // want `escape: bytes of b are returned, but it was freed at line \d+`
}

func stored(p *tarn.Pool, h *holder) {
	b := p.Get(10)
	h.view = b.Bytes() // want `escape: bytes of b are stored in h.view here and outlive it`
	b.Free()
}

func storedForAWhile(p *tarn.Pool, h *holder) {
	b := p.Get(10)
	h.view = b.Bytes()
	use(h)
	h.view = nil
	b.Free()
}

func sent(p *tarn.Pool, out chan []byte) {
	b := p.Get(10)
	out <- b.Bytes() // want `escape: bytes of b are sent here and outlive it`
	b.Free()
}

func sentAndAwaited(p *tarn.Pool, out chan []byte, done chan struct{}) {
	b := p.Get(10)
	out <- b.Bytes()
	<-done
	b.Free()
}

func appended(p *tarn.Pool, head, body []byte) {
	b := p.Get(10)
	out := append(b.Bytes()[:0], head...) // want `append to Bytes\(\)\[:0\] leaves the buffer when the bytes do not fit`
	out = append(out, body...)
	use2(out)
	b.Free()
}

func kept(p *tarn.Pool, h *holder) tarn.Buffer {
	b := p.Get(10)
	h.view = b.Bytes()
	return b
}

func copied(p *tarn.Pool) []byte {
	b := p.Get(10)
	defer b.Free()
	return append([]byte(nil), b.Bytes()...)
}

func use(*holder) {}
func use2([]byte) {}
