package use

import (
	"encoding/binary"

	"github.com/tarn-go/tarn"
)

func afterFree(p *tarn.Pool) int {
	b := p.Get(100)
	b.Free()
	return len(b.Bytes()) // want `use after free: b was freed at line \d+ and is used here`
}

func onOnePath(p *tarn.Pool, early bool) byte {
	b := p.Get(100)
	if early {
		b.Free()
	}
	v := b.Bytes()[0] // want `use after free: b was freed at line \d+`
	if !early {
		b.Free()
	}
	return v
}

func afterSplit(p *tarn.Pool) {
	b := p.Get(100)
	head, tail := b.Split(10)
	head.Free()
	tail.Free()
	b.Free() // want `use after free: b.Split took ownership of b at line \d+, and it is freed here; use what it returned`
}

func afterNarrow(p *tarn.Pool) []byte {
	b := p.Get(100)
	n := b.Narrow(0, 10)
	defer n.Free()
	return append([]byte(nil), b.Bytes()...) // want `use after free: b.Narrow took ownership of b`
}

func afterAppend(p *tarn.Pool, c *tarn.Chain) byte {
	b := p.Get(100)
	c.Append(b)
	return b.Bytes()[0] // want `use after free: c.Append took ownership of b at line \d+`
}

func afterGrow(p *tarn.Pool) {
	b := p.Get(100)
	more, ok := b.GrowTail(10)
	if ok {
		b.Free() // want `use after free: b.GrowTail took ownership of b`
		more.Free()
		return
	}
	b.Free()
}

func bytesAfterFree(p *tarn.Pool) uint32 {
	b := p.Get(100)
	head := b.Bytes()[:4]
	b.Free()
	return binary.BigEndian.Uint32(head) // want `use after free: these are bytes of b, which was freed at line \d+`
}

func bytesAfterAppend(p *tarn.Pool, c *tarn.Chain) byte {
	b := p.Get(100)
	view := b.Bytes()
	c.Append(b)
	return view[0] // want `use after free: these are bytes of b, which c.Append took over at line \d+`
}

func viewsAfterDiscard(c *tarn.Chain) byte {
	views, err := c.Peek(10, nil)
	if err != nil {
		return 0
	}
	c.Discard(10)
	return views[0][0] // want `use after free: these views of c ended when bytes were taken out of it`
}

// send takes ownership of b.
func send(b tarn.Buffer) { b.Free() }

func afterCall(p *tarn.Pool) {
	b := p.Get(10)
	send(b)
	_ = b.Bytes() // want `use after free: send took ownership of b at line \d+`
}

func inferred(b tarn.Buffer) { b.Free() }

func afterInferredCall(p *tarn.Pool) {
	b := p.Get(10)
	inferred(b)
	_ = b.Bytes() // want `use after free: inferred took ownership of b|use after free: b was freed`
}

func deferredTooEarly(p *tarn.Pool) tarn.Buffer {
	b := p.Get(10)
	defer b.Free()
	return b // want `use after free: b was freed at line \d+ and is returned here`
}

type sink interface {
	// Put takes ownership of b.
	Put(b tarn.Buffer)
}

func throughInterface(p *tarn.Pool, s sink) {
	b := p.Get(10)
	s.Put(b)
	_ = b.Bytes() // want `use after free: s.Put took ownership of b`
}

func fieldAfterFree(h *struct{ b tarn.Buffer }) []byte {
	h.b.Free()
	return h.b.Bytes() // want `use after free: h.b was freed at line \d+`
}
