package quiet

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/tarn-go/tarn"
)

type peer struct {
	pool *tarn.Pool
	c    net.Conn
	mu   sync.Mutex
	in   tarn.Chain
	cur  tarn.Buffer
	mem  []byte
	out  *tarn.Chain
}

// The old memory is copied, and freed.
func (c *peer) grow(n int) {
	b := c.pool.Get(n)
	copy(b.Bytes(), c.mem)
	c.cur.Free()
	c.cur, c.mem = b, b.Bytes()
}

// There is nothing before.
func (c *peer) start(n int) {
	c.cur = c.pool.Get(n)
	c.mem = c.cur.Bytes()
}

// The bytes are copied, and the Buffer is returned.
func (c *peer) take() tarn.Buffer {
	x := make([]byte, len(c.mem))
	copy(x, c.mem)
	b := c.cur
	c.cur, c.mem = tarn.Buffer{}, nil
	return b
}

// The old Buffer is returned.
func (c *peer) swap(n int) tarn.Buffer {
	b := c.pool.Get(n)
	copy(b.Bytes(), c.mem)
	old := c.cur
	c.cur, c.mem = b, b.Bytes()
	return old
}

func (c *peer) Close() error {
	c.in.Free()
	c.cur.Free()
	if c.out != nil {
		c.out.Free()
	}
	return c.c.Close()
}

var spareChains = sync.Pool{New: func() any { return new(tarn.Chain) }}

// The chain is freed before it goes into the pool.
func (c *peer) flush() error {
	out := spareChains.Get().(*tarn.Chain)
	c.mu.Lock()
	out.AppendChain(&c.in)
	c.mu.Unlock()
	_, err := out.WriteTo(c.c)
	out.Free()
	spareChains.Put(out)
	return err
}

// The caller has emptied it.
func putChain(c *tarn.Chain) { spareChains.Put(c) }

// The loop takes everything out.
func (c *peer) drain(f func(tarn.Buffer)) {
	for c.out.Len() > 0 {
		f(c.out.NextSegment())
	}
	spareChains.Put(c.out)
	c.out = nil
}

// All is moved by AppendChain.
func (c *peer) move(dst *tarn.Chain) {
	dst.AppendChain(c.out)
	spareChains.Put(c.out)
	c.out = nil
}

type parcel struct {
	head tarn.Buffer
	body *tarn.Chain
}

// send takes ownership of what m holds.
func send(w io.Writer, m *parcel) error {
	defer m.head.Free()
	if m.body == nil {
		_, err := w.Write(m.head.Bytes())
		return err
	}
	defer m.body.Free()
	m.body.Prepend(m.head.Ref())
	_, err := m.body.WriteTo(w)
	return err
}

// forward takes ownership of what m holds.
func forward(ctx context.Context, w io.Writer, m *parcel) error {
	select {
	case <-ctx.Done():
		m.head.Free()
		if m.body != nil {
			m.body.Free()
		}
		return ctx.Err()
	default:
	}
	return send(w, m)
}

// queue takes ownership of what m holds.
func queue(q chan<- parcel, m *parcel) {
	q <- *m
	*m = parcel{}
}

// store takes ownership of what m holds.
func (c *peer) store(m *parcel) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.in.Append(m.head)
	if m.body != nil {
		c.in.AppendChain(m.body)
	}
	m.head, m.body = tarn.Buffer{}, nil
}

// keep takes ownership of what m holds.
func (c *peer) keep(m *parcel) {
	c.cur.Free()
	c.cur, c.out = m.head, m.body
}

var errFull = errors.New("full")

// try takes ownership of b unless it fails: then b stays the caller's.
func try(c *tarn.Chain, b tarn.Buffer) error {
	if c.Len() > 10 {
		return errFull
	}
	c.Append(b)
	return nil
}

// The error is compared.
func isFull(p *tarn.Pool, c *tarn.Chain) bool {
	b := p.Get(10)
	err := try(c, b)
	if errors.Is(err, errFull) {
		b.Free()
		return false
	}
	return true
}

// The error decides in a switch.
func switched(p *tarn.Pool, c *tarn.Chain) error {
	b := p.Get(10)
	switch err := try(c, b); err {
	case nil:
		return nil
	default:
		b.Free()
		return err
	}
}

// A deferred literal looks at the result.
func named(p *tarn.Pool, c *tarn.Chain) (err error) {
	b := p.Get(10)
	defer func() {
		if err != nil {
			b.Free()
		}
	}()
	return try(c, b)
}

// Another function returns the error that decides.
func checked(p *tarn.Pool, ctx context.Context) (int, error) {
	b, err := p.Acquire(ctx, 10)
	if err := wrap(err); err != nil {
		return 0, err
	}
	defer b.Free()
	return b.Len(), nil
}

func wrap(err error) error { return err }

// A count beside io.EOF.
func both(p *tarn.Pool, r io.Reader) (tarn.Buffer, int, error) {
	b := p.Get(10)
	n, err := r.Read(b.Bytes())
	if err != nil && err != io.EOF {
		b.Free()
		return tarn.Buffer{}, 0, err
	}
	return b, n, nil
}

type refsOf struct{ all []tarn.Buffer }

func (l *refsOf) add(b tarn.Buffer) { l.all = append(l.all, b.Ref()) }
func (l *refsOf) Free() {
	if l.all == nil {
		return
	}
	for _, b := range l.all {
		b.Free()
	}
	clear(l.all)
	l.all = l.all[:0]
}
