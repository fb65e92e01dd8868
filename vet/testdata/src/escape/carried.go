package escape

import (
	"bytes"
	"io"
	"unsafe"

	"github.com/tarn-go/tarn"
)

type pair struct{ key, value []byte }

func (p *pair) clone()      { p.key, p.value = bytes.Clone(p.key), bytes.Clone(p.value) }
func (p pair) copied() pair { return pair{bytes.Clone(p.key), bytes.Clone(p.value)} }

type decoder struct {
	src []byte
	n   int
}

func newDecoder(p []byte) *decoder { return &decoder{src: p} }
func (d *decoder) reset(p []byte)  { d.src, d.n = p, 0 }
func (d *decoder) next() byte      { d.n++; return d.src[d.n-1] }

func head(p []byte) []byte {
	if len(p) < 4 {
		return nil
	}
	return p[:4]
}

func inStruct(p *tarn.Pool) pair {
	b := p.Get(10)
	defer b.Free()
	return pair{b.Bytes()[:3], b.Bytes()[3:]} // want `escape: bytes of b are returned`
}

func inPointer(p *tarn.Pool) *pair {
	b := p.Get(10)
	defer b.Free()
	v := &pair{key: b.Bytes()[:3]}
	v.value = b.Bytes()[3:]
	return v // want `escape: bytes of b are returned`
}

func inInterface(p *tarn.Pool) any {
	b := p.Get(10)
	defer b.Free()
	return b.Bytes() // want `escape: bytes of b are returned`
}

func inReader(p *tarn.Pool) io.Reader {
	b := p.Get(10)
	defer b.Free()
	return bytes.NewReader(b.Bytes()) // want `escape: bytes of b are returned`
}

func inParts(p *tarn.Pool) [][]byte {
	b := p.Get(10)
	defer b.Free()
	return bytes.Split(b.Bytes(), []byte(",")) // want `escape: bytes of b are returned`
}

func inAppended(p *tarn.Pool) (out [][]byte) {
	b := p.Get(10)
	defer b.Free()
	out = append(out, b.Bytes()[:4])
	return out // want `escape: bytes of b are returned`
}

func inMade(p *tarn.Pool) map[string][]byte {
	b := p.Get(10)
	defer b.Free()
	m := map[string][]byte{}
	m["a"] = b.Bytes()[:2]
	return m // want `escape: bytes of b are returned`
}

func inString(p *tarn.Pool) string {
	b := p.Get(10)
	defer b.Free()
	return unsafe.String(unsafe.SliceData(b.Bytes()), b.Len()) // want `escape: bytes of b are returned`
}

func inConstructed(p *tarn.Pool) *decoder {
	b := p.Get(10)
	defer b.Free()
	return newDecoder(b.Bytes()) // want `escape: bytes of b are returned`
}

func inVariable(p *tarn.Pool) *decoder {
	d := new(decoder)
	b := p.Get(10)
	defer b.Free()
	d.reset(b.Bytes())
	return d // want `escape: bytes of b are returned`
}

func partByHelper(p *tarn.Pool) []byte {
	b := p.Get(10)
	defer b.Free()
	return head(b.Bytes()) // want `escape: bytes of b are returned`
}

func keptByHelper(p *tarn.Pool, d *decoder) {
	b := p.Get(10)
	d.reset(b.Bytes()) // want `escape: bytes of b are kept by d.reset here and outlive it`
	b.Free()
}

func views(p *tarn.Pool) [][]byte {
	var c tarn.Chain
	defer c.Free()
	c.Append(p.Get(10))
	views, err := c.Peek(10, nil)
	if err != nil {
		return nil
	}
	return views // want `escape: views of c are returned, but it was freed or changed before`
}

func parameter(b tarn.Buffer, h *holder) {
	h.view = b.Bytes() // want `escape: bytes of b are stored in h.view here`
	b.Free()
}

// What was copied before.
func copies(p *tarn.Pool) (pair, *pair, pair, [][]byte) {
	b := p.Get(10)
	defer b.Free()
	one := pair{key: b.Bytes()[:3]}
	one.key = bytes.Clone(one.key)
	two := &pair{key: b.Bytes()[:3]}
	two.clone()
	three := pair{key: b.Bytes()[:3]}
	parts := bytes.Split(b.Bytes(), []byte(","))
	for i := range parts {
		parts[i] = bytes.Clone(parts[i])
	}
	return one, two, three.copied(), parts
}

// What ends with the function.
func local(p *tarn.Pool, d *decoder) (n int) {
	b := p.Get(10)
	defer b.Free()
	var own decoder
	own.reset(b.Bytes())
	n = len(own.src)
	made := newDecoder(b.Bytes())
	n += int(made.next())
	m := map[string][]byte{"a": b.Bytes()}
	n += len(m)
	vecs := [][]byte{b.Bytes()}
	vecs = append(vecs[:0], []byte("x"))
	d.reset(b.Bytes())
	defer d.reset(nil)
	return n + len(vecs)
}

func takenBack(p *tarn.Pool, d *decoder) {
	b := p.Get(10)
	defer b.Free()
	before := d.src
	d.src = b.Bytes()
	defer func() { d.src = before }()
	d.n = 0
}

func namedAndCleared(p *tarn.Pool, bad bool) (v pair, err error) {
	b := p.Get(10)
	defer b.Free()
	v.key = b.Bytes()
	if bad {
		return pair{}, io.EOF
	}
	v.key = nil
	return v, nil
}
