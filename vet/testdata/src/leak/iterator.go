package leak

import (
	"iter"

	"github.com/tarn-go/tarn"
)

func inBody(p *tarn.Pool, seq iter.Seq[int]) {
	for i := range seq {
		b := p.Get(i) // want `leak: b from p.Get is not freed`
		if i == 3 {
			return
		}
		b.Free()
	}
}

func outOfBody(p *tarn.Pool, seq iter.Seq[int]) error {
	b := p.Get(10) // want `leak: b from p.Get is not freed`
	for i := range seq {
		if i > 3 {
			return errShort
		}
		b.Bytes()[i] = 2
	}
	b.Free()
	return nil
}

func freedOutOfBody(p *tarn.Pool, seq iter.Seq[int]) error {
	b := p.Get(10)
	for i := range seq {
		if i > 3 {
			b.Free()
			return errShort
		}
		b.Bytes()[i] = 2
	}
	b.Free()
	return nil
}

func yielded(seq iter.Seq2[tarn.Buffer, error]) (tarn.Buffer, error) {
	for b, err := range seq {
		if err != nil {
			return tarn.Buffer{}, err
		}
		if b.Len() > 5 {
			return b, nil
		}
		b.Free()
	}
	return tarn.Buffer{}, errShort
}
