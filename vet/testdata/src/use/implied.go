package use

import "github.com/tarn-go/tarn"

// impliedSink has methods without comments: what they do is what both implementations do.
type impliedSink interface {
	put(b tarn.Buffer)
	look(b tarn.Buffer) int
	differ(b tarn.Buffer)
}

type impliedCounter struct{ n int }

func (c *impliedCounter) put(b tarn.Buffer)      { c.n += b.Len(); b.Free() }
func (c *impliedCounter) look(b tarn.Buffer) int { return len(b.Bytes()) }
func (c *impliedCounter) differ(b tarn.Buffer)   { b.Free() }

type impliedKeeper struct{ c tarn.Chain }

func (k *impliedKeeper) put(b tarn.Buffer)      { k.c.Append(b) }
func (k *impliedKeeper) look(b tarn.Buffer) int { return len(b.Bytes()) + k.c.Len() }
func (k *impliedKeeper) differ(b tarn.Buffer)   { k.c.PrependBytes(b.Bytes()) }
func (k *impliedKeeper) free()                  { k.c.Free() }

func impliedPut(s impliedSink, p *tarn.Pool) int {
	b := p.Get(10)
	s.put(b)
	return len(b.Bytes()) // want `use after`
}

func impliedTwice(s impliedSink, p *tarn.Pool) {
	b := p.Get(10)
	s.put(b)
	b.Free() // want `use after free: s.put took ownership of b`
}

func impliedLook(s impliedSink, p *tarn.Pool) int {
	b := p.Get(10)
	n := s.look(b)
	b.Free()
	return n
}

func impliedDiffer(s impliedSink, p *tarn.Pool) {
	b := p.Get(10)
	s.differ(b)
	b.Free()
}
