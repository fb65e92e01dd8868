package copied

import "github.com/tarn-go/tarn"

type session struct {
	out   tarn.Chain
	w     tarn.Writer
	parts []part
	by    map[string]tarn.Chain
}

type part struct {
	head tarn.Buffer
	body tarn.Chain
}

func (s *session) field() {
	c := s.out // want `copy: this copies the Chain in s\.out, and the two own the same memory`
	c.Free()
}

func (s *session) declared() {
	var w = s.w // want `copy: this copies the Writer in s\.w`
	w.Free()
}

func (s *session) element(i int) {
	q := s.parts[i] // want `copy: this copies the Chain in s\.parts\[i\]`
	q.body.Free()
}

func pointed(a *tarn.Arena) {
	b := *a // want `copy: this copies the Arena in \*a`
	b.Free()
}

func (s *session) intoField(t *session) {
	s.out = t.out // want `copy: this copies the Chain in t\.out`
}

func (s *session) ranged() {
	for _, q := range s.parts { // want `copy: each iteration copies the Chain of an element of s\.parts, and the two own the same memory; use the index`
		q.body.Free()
	}
}

func rangedChains(list []tarn.Chain) (n int) {
	for _, c := range list { // want `copy: each iteration copies the Chain of an element of list`
		n += c.Len()
	}
	return n
}

func (q part) free() { // want `copy: each call of free copies the Chain in q, and the two own the same memory; use a pointer receiver`
	q.body.Free()
	q.head.Free()
}

func (s *session) returned() tarn.Chain {
	return s.out // want `copy: this copies the Chain in s\.out`
}

func (s *session) passed() {
	consume(s.out) // want `copy: this copies the Chain in s\.out`
}

func (s *session) another() *session {
	t := &session{}
	return &session{out: t.out} // want `copy: this copies the Chain in t\.out`
}

// These move the content, or copy none.

func (s *session) moves() tarn.Chain {
	c := s.out
	s.out = tarn.Chain{}
	return c
}

func (s *session) swaps(t *session) { s.out, t.out = t.out, s.out }

func (s *session) shifts() {
	for len(s.parts) > 0 {
		q := s.parts[0]
		s.parts = s.parts[1:]
		q.body.Free()
	}
}

func (s *session) freesAll() {
	for _, q := range s.parts {
		q.body.Free()
	}
	s.parts = nil
}

func (s *session) index() {
	for i := range s.parts {
		q := &s.parts[i]
		q.body.Free()
	}
}

func (s *session) takesOut(name string) {
	c := s.by[name]
	delete(s.by, name)
	c.Free()
}

func received(ch chan part) {
	for q := range ch {
		q.body.Free()
		q.head.Free()
	}
}
