package leak

import (
	"io"

	"github.com/tarn-go/tarn"
)

func withError(p *tarn.Pool, r io.Reader) (tarn.Buffer, error) {
	b := p.Get(10)
	if _, err := io.ReadFull(r, b.Bytes()); err != nil {
		return b, err // want `leak: b from p.Get is returned together with a non-nil error .*, and callers free nothing then \(rule 4\)`
	}
	return b, nil
}

func withEOF(p *tarn.Pool, r io.Reader) (tarn.Buffer, error) {
	b := p.Get(10)
	n, err := r.Read(b.Bytes())
	if err == io.EOF {
		return b.Narrow(0, n), io.EOF // want `leak: the reference from b.Narrow is returned together with a non-nil error`
	}
	if err != nil {
		b.Free()
		return tarn.Buffer{}, err
	}
	return b.Narrow(0, n), nil
}

func namedWithError(p *tarn.Pool, r io.Reader) (b tarn.Buffer, err error) {
	b = p.Get(10)
	if _, err = io.ReadFull(r, b.Bytes()); err != nil {
		return // want `leak: b from p.Get is returned together with a non-nil error`
	}
	return
}

func chainWithError(p *tarn.Pool, r io.Reader) (c tarn.Chain, err error) {
	c.Append(p.Get(10))
	if _, err = r.Read(nil); err != nil {
		return c, err // want `leak: c is returned together with a non-nil error`
	}
	return c, nil
}

// A deferred call frees it.
func namedAndFreed(p *tarn.Pool, r io.Reader) (b tarn.Buffer, err error) {
	b = p.Get(10)
	defer func() {
		if err != nil {
			b.Free()
			b = tarn.Buffer{}
		}
	}()
	_, err = io.ReadFull(r, b.Bytes())
	return b, err
}

// A count with an error is none of this.
func countWithError(p *tarn.Pool, r io.Reader) (int, error) {
	b := p.Get(10)
	defer b.Free()
	n, err := r.Read(b.Bytes())
	if err != nil {
		return n, io.EOF
	}
	return n, nil
}

// okTells returns a reference if ok, to be freed, and the error of the next one.
func okTells(p *tarn.Pool, r io.Reader) (b tarn.Buffer, ok bool, err error) {
	b = p.Get(10)
	if _, err := r.Read(b.Bytes()); err != nil {
		return b, true, err
	}
	return b, true, nil
}

func bothOfACall(p *tarn.Pool, r io.Reader) (tarn.Buffer, error) {
	b, err := withEOF(p, r)
	return b, err
}

// Whether the error is nil is not tested.
func untested(p *tarn.Pool, r io.Reader) (tarn.Buffer, error) {
	b := p.Get(10)
	_, err := io.ReadFull(r, b.Bytes())
	return b, err // want `leak: b from p.Get is returned although the error may be non-nil, and callers free nothing then \(rule 4\)`
}

func untestedNamed(p *tarn.Pool, r io.Reader) (b tarn.Buffer, err error) {
	b = p.Get(10)
	_, err = io.ReadFull(r, b.Bytes())
	return // want `leak: b from p.Get is returned although the error may be non-nil`
}

func untestedCall(p *tarn.Pool, c io.Closer) (tarn.Buffer, error) {
	b := p.Get(10)
	return b, c.Close() // want `leak: b from p.Get is returned although the error may be non-nil`
}

func freedByError(p *tarn.Pool, r io.Reader) (tarn.Buffer, error) {
	b := p.Get(10)
	_, err := io.ReadFull(r, b.Bytes())
	if err != nil {
		b.Free()
		b = tarn.Buffer{}
	}
	return b, err
}

func decoded(p *tarn.Pool, r io.Reader) (b tarn.Buffer, err error) {
	for range 3 {
		if b, err = withEOF(p, r); err == nil {
			break
		}
	}
	return b, err
}

func cutTo(c *tarn.Chain, n int) (tarn.Chain, error) {
	var out tarn.Chain
	err := c.CutTo(&out, n) // moves nothing with an error
	return out, err
}
