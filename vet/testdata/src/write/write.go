package write

import (
	"encoding/binary"
	"net"

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

func number(dst []byte, n byte) {
	if len(dst) == 0 {
		return
	}
	dst[0] = n
}

func fill(dst []byte) {
	for i := range dst {
		dst[i] = 1
	}
}

func fillTail(dst []byte, src string) int { return copy(dst[4:], src) }

func fillIndirectly(dst []byte) { fill(dst[1:]) }

func maskIf(dst []byte, masked bool) {
	if masked {
		dst[0] ^= 1
	}
}

func sum(src []byte) (n int) {
	for _, v := range src {
		n += int(v)
	}
	return n
}

func byHelper(p *tarn.Pool, c *tarn.Chain) {
	b := p.Get(10)
	c.Append(b.Ref())
	number(b.Bytes(), 7) // want `write: bytes of b are written while another reference`
	b.Free()
}

func byHelperWithLoop(p *tarn.Pool, c *tarn.Chain) {
	b := p.Get(10)
	c.Append(b.Ref())
	fill(b.Bytes()) // want `write: bytes of b are written while another reference`
	b.Free()
}

func byHelperThatCopies(p *tarn.Pool, c *tarn.Chain) {
	b := p.Get(10)
	c.Append(b.Ref())
	fillTail(b.Bytes(), "x") // want `write: bytes of b are written while another reference`
	b.Free()
}

func byHelperOfHelper(p *tarn.Pool, c *tarn.Chain) {
	b := p.Get(10)
	c.Append(b.Ref())
	fillIndirectly(b.Bytes()[2:]) // want `write: bytes of b are written while another reference`
	b.Free()
}

func byConn(p *tarn.Pool, c *tarn.Chain, conn *net.TCPConn) error {
	b := p.Get(10)
	c.Append(b.Ref())
	_, err := conn.Read(b.Bytes()) // want `write: bytes of b are written while another reference`
	b.Free()
	return err
}

// A helper that writes on some paths only may do so when the bytes are not shared.
func byHelperPerhaps(p *tarn.Pool, c *tarn.Chain) {
	b := p.Get(10)
	c.Append(b.Ref())
	maskIf(b.Bytes(), false)
	b.Free()
}

func readByHelper(p *tarn.Pool, c *tarn.Chain) int {
	b := p.Get(10)
	number(b.Bytes(), 1)
	c.Append(b.Ref())
	defer b.Free()
	return sum(b.Bytes())
}

func byHelperIfUnique(p *tarn.Pool, c *tarn.Chain) {
	b := p.Get(10)
	c.Append(b.Ref())
	if b.Unique() {
		fill(b.Bytes())
	}
	b.Free()
}
