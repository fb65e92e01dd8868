package leak

import "github.com/tarn-go/tarn"

type source struct {
	pool *tarn.Pool
	rest tarn.Buffer
	n    int
}

// more has to free what it replaces.
func (s *source) more(n int) {
	if s.rest.Len() < n {
		s.rest = s.pool.Get(n) // want `leak: s.rest is overwritten without having been freed or moved elsewhere on this path`
	}
}

func (s *source) moreFreed(n int) {
	if s.rest.Len() < n {
		s.rest.Free()
		s.rest = s.pool.Get(n)
	}
}

func (s *source) first(n int) {
	if s.rest.Len() == 0 {
		s.rest = s.pool.Get(n)
	}
}

func (s *source) firstZero(n int) {
	if s.rest.IsZero() {
		s.rest = s.pool.Get(n)
	}
}

func (s *source) again(n int) {
	if !s.rest.IsZero() {
		s.rest = s.pool.Get(n) // want `leak: s.rest is overwritten`
	}
}

func (s *source) replace(p []byte) {
	b := s.pool.Get(len(p))
	copy(b.Bytes(), s.rest.Bytes())
	s.rest = b // want `leak: s.rest is overwritten`
}

func (s *source) swap(p []byte) {
	b, old := s.pool.Get(len(p)), s.rest
	copy(b.Bytes(), s.rest.Bytes())
	s.rest = b
	old.Free()
}

func (s *source) narrow(n int) {
	if s.rest.Len() > n {
		s.rest = s.rest.Narrow(0, n)
	}
}

func (s *source) takeOut() tarn.Buffer {
	if s.rest.Len() == 0 {
		return tarn.Buffer{}
	}
	b := s.rest
	s.rest = tarn.Buffer{}
	return b
}

func (s *source) drop() {
	s.rest, s.n = tarn.Buffer{}, 0 // want `leak: s.rest is overwritten`
}

func (s *source) dropFreed() {
	s.rest.Free()
	s.rest, s.n = tarn.Buffer{}, 0
}

func ring(p *tarn.Pool, n int) {
	var held [8]tarn.Buffer
	for i := range n {
		k := i % len(held)
		if !held[k].IsZero() && held[k].Bytes()[0] != 1 {
			return
		}
		held[k] = p.Get(n) // want `leak: held\[…\] is overwritten without having been freed or moved elsewhere on this path \(where the condition at line \d+ is false\); free it first`
	}
	for _, b := range held {
		b.Free()
	}
}

func ringFreed(p *tarn.Pool, n int) {
	var held [8]tarn.Buffer
	for i := range n {
		k := i % len(held)
		if !held[k].IsZero() && held[k].Bytes()[0] != 1 {
			return
		}
		held[k].Free()
		held[k] = p.Get(n)
	}
	for _, b := range held {
		b.Free()
	}
}

// fill takes ownership of what c holds, on errors too.
func fill(c *tarn.Chain, ok bool) error { // want `leak: fill takes ownership of c, as its comment says, but does not free it`
	if !ok {
		return errShort
	}
	c.Free()
	return nil
}

// fillFreed takes ownership of what c holds, on errors too.
func fillFreed(c, d *tarn.Chain, ok bool) error {
	if !ok {
		c.Free()
		d.Free()
		return errShort
	}
	d.AppendChain(c)
	d.Free()
	return nil
}

type sender interface{ send(c *tarn.Chain) error }

// forward takes ownership of what c holds.
func forward(s sender, c *tarn.Chain) error {
	if s == nil {
		c.Free()
		return errShort
	}
	return s.send(c)
}

type out struct {
	data tarn.Buffer
	rest *tarn.Chain
}

func (o *out) free() {
	o.data.Free()
	o.data = tarn.Buffer{}
	if o.rest != nil {
		o.rest.Free()
	}
}

// post takes ownership of o.
func post(o *out, err error) error { // want `leak: post takes ownership of what o holds, as its comment says, but does not free o.data`
	if err != nil {
		return err
	}
	o.free()
	return nil
}

// postFreed takes ownership of o.
func postFreed(o *out, ch chan *out, err error) error {
	if err != nil {
		o.free()
		return err
	}
	ch <- o
	return nil
}

func (s *source) next(n int) tarn.Buffer {
	if s.rest.Len() < n {
		s.rest.Free()
		s.rest = s.pool.Get(n)
	}
	var b tarn.Buffer
	b, s.rest = s.rest.Split(n)
	return b
}

func (s *source) open() error {
	if s.pool == nil {
		return errShort
	}
	s.rest = s.pool.Get(s.n)
	return nil
}

func (s *source) close() { s.rest.Free() }

func notClosed(p *tarn.Pool) {
	s := source{pool: p}
	s.next(1).Free() // want `leak: s.rest .*is not freed when the function ends`
}

func notOpened(p *tarn.Pool) error {
	var s source
	if err := s.open(); err != nil { // want `leak: s.rest .*is not freed on the path that returns`
		return err
	}
	return nil
}

func openedAndClosed(p *tarn.Pool) error {
	var s source
	if err := s.open(); err != nil {
		return err
	}
	s.close()
	return nil
}

func closed(p *tarn.Pool) {
	s := source{pool: p}
	defer s.close()
	s.next(1).Free()
}

func fieldFreed(p *tarn.Pool) {
	s := source{pool: p}
	for range 3 {
		s.next(1).Free()
	}
	s.rest.Free()
}

func onTheHeap(p *tarn.Pool) *source {
	s := &source{pool: p}
	s.next(1).Free()
	return s
}

func registered(p *tarn.Pool, list []*source) {
	s := source{pool: p}
	list[0] = &s
	s.next(1).Free()
}

func byValue(p *tarn.Pool) source {
	s := source{pool: p}
	s.next(1).Free()
	return s
}

func cleanedUp(p *tarn.Pool, later func(func())) {
	s := source{pool: p}
	later(s.close)
	s.next(1).Free()
}

func cleanedUpByLiteral(p *tarn.Pool, later func(func())) {
	var s source
	later(func() { s.close() })
	if s.open() != nil {
		return
	}
	s.next(1).Free()
}

type message struct {
	chain *tarn.Chain
	buf   tarn.Buffer
	parts *parts
}

type parts struct{ of []byte }

func (p *parts) chain(b tarn.Buffer) *tarn.Chain { return collect(p, b) }

var collect func(*parts, tarn.Buffer) *tarn.Chain

func (m *message) join() {
	if m.parts != nil {
		m.chain, m.buf, m.parts = m.parts.chain(m.buf), tarn.Buffer{}, nil
	}
}

func (m *message) clearAfter(note func()) {
	m.buf.Free()
	note()
	m.buf, m.chain = tarn.Buffer{}, nil
}

func withoutPrefix(m message) message {
	if m.chain == nil {
		m.buf = m.buf.Narrow(5, m.buf.Len())
		return m
	}
	return m
}

// buffered may return the zero Buffer.
func (s *source) buffered(n int) tarn.Buffer {
	if n < s.n {
		return tarn.Buffer{}
	}
	return s.pool.Get(n)
}

func maybeIgnored(s *source) {
	s.buffered(10) // want `leak: the result of s.buffered is a reference to be freed, and is ignored`
}

func maybeLooked(s *source) int {
	b := s.buffered(10) // want `leak: b from s.buffered is not freed`
	return len(b.Bytes())
}

func maybeFreed(s *source) {
	b := s.buffered(10)
	if b.Len() == 0 {
		return
	}
	b.Free()
}

func maybeFreedOtherwise(s *source, ok bool) {
	b := s.buffered(10)
	if ok {
		b.Free()
	}
}
