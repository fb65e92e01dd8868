package fix

import "github.com/tarn-go/tarn"

func narrow(p *tarn.Pool, n int) tarn.Buffer {
	b := p.Get(100)
	b = b.Slice(0, n) // want `b.Narrow\(…\) keeps one`
	return b
}
