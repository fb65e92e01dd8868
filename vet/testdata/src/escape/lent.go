package escape

import "github.com/tarn-go/tarn"

type reader struct {
	mem []byte
	own tarn.Buffer
}

// Peek returns the next n bytes. They are borrowed: valid until the next call of any method of r.
func (r *reader) Peek(n int) ([]byte, error) { return r.mem[:n], nil }

func (r *reader) Discard(n int) error { r.mem = r.mem[n:]; return nil }
func (r *reader) Release()            { r.own.Free(); r.own, r.mem = tarn.Buffer{}, nil }

func peekReturned(r *reader) ([]byte, error) {
	defer r.Release()
	return r.Peek(4) // want `escape: bytes that r lends are returned, but r.Release at line \d+ ended that; return a copy of them`
}

func peekStored(r *reader, h *holder) error {
	defer r.Release()
	v, err := r.Peek(4)
	if err != nil {
		return err
	}
	h.view = v // want `escape: bytes that r lends are stored in h.view here and outlive that: they are valid until its next method is called`
	return nil
}

func peekUsed(r *reader) (byte, error) {
	v, err := r.Peek(4)
	if err != nil {
		return 0, err
	}
	if err := r.Discard(4); err != nil {
		return 0, err
	}
	return v[0], nil // want `use after free: these bytes are borrowed until the next call of a method of r, and that is r.Discard at line \d+`
}

func peekPassedOn(r *reader) ([]byte, error) { return r.Peek(4) }

func peekInTime(r *reader) (n int, err error) {
	defer r.Release()
	for n = 1; ; n++ {
		v, err := r.Peek(n)
		if err != nil {
			return 0, err
		}
		if v[n-1] == '\n' {
			return n, r.Discard(n)
		}
	}
}
