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
