// Package quiet is correct code, of which nothing may be reported.
package quiet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/tarn-go/tarn"
)

var errBad = errors.New("bad")

func conditional(p *tarn.Pool, n int) {
	var b tarn.Buffer
	if n > 0 {
		b = p.Get(n)
	}
	if n > 0 {
		use(b.Bytes())
	}
	b.Free() // the zero Buffer may be freed
}

func flag(p *tarn.Pool, n int) {
	var b tarn.Buffer
	got := false
	if n > 3 {
		b, got = p.Get(n), true
	}
	if got {
		b.Free()
	}
}

func errorTwice(p *tarn.Pool, r io.Reader) error {
	b, err := p.Acquire(context.Background(), 10)
	if err == nil {
		_, err = io.ReadFull(r, b.Bytes())
		if err != nil {
			b.Free()
		}
	}
	if err != nil {
		return err
	}
	b.Free()
	return nil
}

func sentinel(c *tarn.Chain) error {
	for {
		b, err := c.Next(10)
		if err == io.ErrUnexpectedEOF || errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		b.Free()
	}
}

func deferredLiteral(p *tarn.Pool, r io.Reader) (err error) {
	b := p.Get(10)
	defer func() {
		if err != nil {
			b.Free()
		}
	}()
	if _, err = io.ReadFull(r, b.Bytes()); err != nil {
		return err
	}
	b.Free()
	return nil
}

func deferredVariable(p *tarn.Pool) {
	b := p.Get(10)
	defer func() { b.Free() }()
	b = b.Narrow(0, 5)
}

func narrowed(p *tarn.Pool) tarn.Buffer {
	b := p.Get(10)
	b = b.Narrow(0, 5)
	if more, ok := b.GrowTail(2); ok {
		b = more
	}
	return b
}

func viewAcrossNarrow(p *tarn.Pool) byte {
	b := p.Get(10)
	v := b.Bytes()
	b = b.Narrow(0, 5)
	x := v[0]
	b.Free()
	return x
}

func joined(a, b tarn.Buffer) []tarn.Buffer {
	if ab, ok := a.Join(b); ok {
		return []tarn.Buffer{ab}
	}
	return []tarn.Buffer{a, b}
}

func carried(p *tarn.Pool, n int) {
	prev := p.Get(1)
	for range n {
		next := p.Get(2)
		prev.Free()
		prev = next
	}
	prev.Free()
}

func rest(b tarn.Buffer, c *tarn.Chain) {
	for b.Len() > 10 {
		var head tarn.Buffer
		head, b = b.Split(10)
		c.Append(head)
	}
	c.Append(b)
}

type conn struct {
	mu   sync.Mutex
	in   tarn.Buffer
	all  []tarn.Buffer
	byID map[int]tarn.Buffer
	out  chan tarn.Buffer
	c    tarn.Chain
}

func (c *conn) keep(b tarn.Buffer)       { c.in = b }
func (c *conn) add(b tarn.Buffer)        { c.all = append(c.all, b) }
func (c *conn) put(k int, b tarn.Buffer) { c.byID[k] = b }
func (c *conn) send(b tarn.Buffer)       { c.out <- b }

func stores(p *tarn.Pool, c *conn) {
	c.keep(p.Get(1))
	c.add(p.Get(2))
	c.put(3, p.Get(3))
	c.send(p.Get(4))
	b := p.Get(5)
	c.in = b
	use(b.Bytes())
}

func (c *conn) take() tarn.Buffer {
	b := c.in
	c.in = tarn.Buffer{}
	return b
}

func (c *conn) replace(p *tarn.Pool, n int) {
	if c.in.Len() < n {
		c.in.Free()
		c.in = p.Get(n)
	}
}

func (c *conn) offer(b tarn.Buffer, done chan struct{}) error {
	select {
	case c.out <- b:
		return nil
	case <-done:
		b.Free()
		return errBad
	}
}

func (c *conn) tryOffer(b tarn.Buffer) {
	select {
	case c.out <- b:
		return
	default:
	}
	b.Free()
}

func (c *conn) close() {
	for _, b := range c.all {
		b.Free()
	}
	c.all = nil
	for k, b := range c.byID {
		b.Free()
		delete(c.byID, k)
	}
	c.in.Free()
	c.in = tarn.Buffer{}
	c.c.Free()
}

func collected(p *tarn.Pool, n int) {
	var held []tarn.Buffer
	for i := range n {
		held = append(held, p.Get(i))
	}
	for _, b := range held {
		b.Free()
	}
}

func inArray(p *tarn.Pool) {
	var held [4]tarn.Buffer
	for i := range held {
		held[i] = p.Get(1)
	}
	for i := range held {
		held[i].Free()
	}
}

func goroutine(p *tarn.Pool) {
	b := p.Get(10)
	go func() {
		defer b.Free()
		use(b.Bytes())
	}()
}

func goroutineWithRef(p *tarn.Pool) {
	b := p.Get(10)
	var wg sync.WaitGroup
	wg.Add(1)
	go func(b tarn.Buffer) {
		defer wg.Done()
		b.Free()
	}(b.Ref())
	b.Free()
	wg.Wait()
}

func workers(p *tarn.Pool) {
	b := p.Get(10)
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			use(b.Bytes())
		}()
	}
	wg.Wait()
	b.Free()
}

func methodValue(p *tarn.Pool, cleanup func(func())) {
	b := p.Get(10)
	cleanup(b.Free)
}

func chains(p *tarn.Pool, w io.Writer) error {
	var c tarn.Chain
	defer c.Free()
	c.Append(p.Get(10))
	head, err := c.Cut(5)
	if err != nil {
		return err
	}
	defer head.Free()
	_, err = c.WriteTo(w)
	return err
}

func chainReused(p *tarn.Pool) {
	var c tarn.Chain
	for range 3 {
		c.Append(p.Get(10))
		c.Free()
	}
	c.Free() // it is empty
}

func chainReturned(p *tarn.Pool) tarn.Chain {
	w := tarn.NewWriter(p)
	fmt.Fprintf(w, "%d", 3)
	return w.Take()
}

type message struct {
	buf   tarn.Buffer
	chain *tarn.Chain
}

func (m *message) free() {
	if m.chain != nil {
		m.chain.Free()
		m.chain = nil
	}
	m.buf.Free()
	m.buf = tarn.Buffer{}
}

func cut(c *tarn.Chain, n int) (m message, err error) {
	d, err := c.Cut(n)
	if err != nil {
		return m, err
	}
	return message{chain: &d}, nil
}

func messages(c *tarn.Chain) error {
	m, err := cut(c, 10)
	if err != nil {
		return err
	}
	defer m.free()
	return nil
}

// found returns a reference and whether there is one.
func (c *conn) found() (b tarn.Buffer, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.in.IsZero() {
		return b, false
	}
	b, c.in = c.in, tarn.Buffer{}
	return b, true
}

func finds(c *conn) int {
	b, ok := c.found()
	if !ok {
		return 0
	}
	defer b.Free()
	return b.Len()
}

type stack[T any] struct{ items []T }

func (s *stack[T]) push(v T) { s.items = append(s.items, v) }

func generic(p *tarn.Pool, s *stack[tarn.Buffer]) { s.push(p.Get(10)) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func throughMust(p *tarn.Pool) {
	b := must(p.Acquire(context.Background(), 1))
	b.Free()
}

func recovered(p *tarn.Pool) (err error) {
	b := p.Get(10)
	defer b.Free()
	defer func() {
		if recover() != nil {
			err = errBad
		}
	}()
	use(b.Bytes())
	return nil
}

func labelled(p *tarn.Pool, n int) {
outer:
	for i := range n {
		b := p.Get(i)
		for j := range n {
			if j == i {
				b.Free()
				continue outer
			}
		}
		b.Free()
	}
}

func lent(p *tarn.Pool, h func(tarn.Buffer)) {
	b := p.Get(1)
	h(b)
}

func use([]byte) {}

func printed(p *tarn.Pool) string {
	b := p.Get(10)
	b.Free()
	return fmt.Sprint(b) // it says that it was freed
}

func kept(p *tarn.Pool, all []any) []any {
	return append(all, p.Get(10))
}

func deferredInLoop(p *tarn.Pool, n int) (total int) {
	for i := range n {
		b := p.Get(i)
		defer b.Free()
		part := b.Slice(0, i)
		defer part.Free()
		total += part.Len()
	}
	return total
}

func lastThree(p *tarn.Pool, n int) {
	a, b, c := p.Get(1), p.Get(1), p.Get(1)
	for range n {
		c.Free()
		c, b, a = b, a, p.Get(1)
	}
	a.Free()
	b.Free()
	c.Free()
}

func literals(p *tarn.Pool, n int) {
	a, b := p.Get(1), p.Get(2)
	for _, x := range []tarn.Buffer{a, b} {
		x.Free()
	}
	var c tarn.Buffer
	if n > 0 {
		c = p.Get(n)
	}
	for _, x := range [...]tarn.Buffer{c, p.Get(3)} {
		if !x.IsZero() {
			x.Free()
		}
	}
	for _, x := range []struct {
		name string
		b    tarn.Buffer
	}{{"a", p.Get(4)}, {"b", p.Get(5)}} {
		x.b.Free()
	}
	var c1, c2 tarn.Chain
	c1.Append(p.Get(6))
	for _, x := range []*tarn.Chain{&c1, &c2} {
		x.Free()
	}
}

func restOfLiteral(p *tarn.Pool) {
	rest := []tarn.Buffer{p.Get(1), p.Get(2)}
	for len(rest) > 0 {
		b := rest[0]
		rest = rest[1:]
		b.Free()
	}
}

func restOfVariables(p *tarn.Pool) {
	a, b := p.Get(1), p.Get(2)
	for rest := []tarn.Buffer{a, b}; len(rest) > 0; rest = rest[1:] {
		rest[0].Free()
	}
}
