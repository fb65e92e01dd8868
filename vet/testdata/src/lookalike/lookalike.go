// Package lookalike has types with the same names that are not Tarn's.
package lookalike

type Buffer struct{ p []byte }

func (b Buffer) Free()                 {}
func (b Buffer) Ref() Buffer           { return b }
func (b Buffer) Slice(i, j int) Buffer { return Buffer{b.p[i:j]} }
func (b Buffer) Bytes() []byte         { return b.p }

type Pool struct{}

func (Pool) Get(n int) Buffer { return Buffer{make([]byte, n)} }

func Use(b Buffer) []byte {
	var p Pool
	x := p.Get(10)
	x = x.Slice(0, 5)
	x.Free()
	x.Free()
	p.Get(3)
	return x.Bytes()
}
