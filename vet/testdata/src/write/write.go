package write

import (
	"encoding/binary"

	"github.com/tarn-go/tarn"
)

func afterRef(p *tarn.Pool) {
	b := p.Get(10)
	r := b.Ref()
	b.Bytes()[0] = 1 // want `write: bytes of b are written while another reference to them is alive`
	r.Free()
	b.Free()
}

func afterSlice(p *tarn.Pool, src []byte) {
	b := p.Get(10)
	s := b.Slice(0, 5)
	copy(s.Bytes(), src) // want `write: bytes of s are written while another reference`
	s.Free()
	b.Free()
}

func afterHandOver(p *tarn.Pool, c *tarn.Chain) {
	b := p.Get(10)
	c.Append(b.Ref())
	binary.BigEndian.PutUint32(b.Bytes(), 7) // want `write: bytes of b are written while another reference`
	b.Free()
}

func before(p *tarn.Pool) {
	b := p.Get(10)
	b.Bytes()[0] = 1
	r := b.Ref()
	r.Free()
	b.Bytes()[0] = 2 // the other is gone
	b.Free()
}

func checked(p *tarn.Pool, c *tarn.Chain) {
	b := p.Get(10)
	c.Append(b.Ref())
	if b.Unique() {
		b.Bytes()[0] = 1
	}
	b.Free()
}
