package tarn_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
)

// TestWriterPacks: many small writes go into few buffers, filled to the last byte of their slabs.
func TestWriterPacks(t *testing.T) {
	for _, size := range []int{1, 7, 100, 1000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			p := tarntest.NewPool(t)
			w := tarn.NewWriter(p)
			piece := make([]byte, size)
			const total = 70_000
			for w.Len() < total {
				w.Write(piece)
			}
			c := w.Take()
			defer c.Free()
			if c.Segments() > 9 {
				t.Errorf("%d bytes in %d segments", c.Len(), c.Segments())
			}
			views, err := c.Peek(c.Len(), nil)
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range views[:len(views)-1] {
				if p.ClassSize(len(v)) != len(v) {
					t.Errorf("segment %d has %d bytes in a slab of %d", i, len(v), p.ClassSize(len(v)))
				}
			}
			if in := p.Stats().InUse; in > int64(2*c.Len()) {
				t.Errorf("%d bytes written keep %d", c.Len(), in)
			}
		})
	}
}

func TestWriterLargeWrite(t *testing.T) {
	p := tarntest.NewPool(t)
	w := tarn.NewWriter(p)
	w.WriteString("header")
	w.Write(make([]byte, 300_000))
	c := w.Take()
	defer c.Free()
	if c.Segments() != 2 {
		t.Errorf("%d segments", c.Segments())
	}
	if in := p.Stats().InUse; in > 350_000 {
		t.Errorf("keeps %d bytes", in)
	}
}

// TestWriterLearns: the second message of a size goes into one buffer.
func TestWriterLearns(t *testing.T) {
	w := tarn.NewWriter(tarntest.NewPool(t))
	for i := range 3 {
		for range 90 {
			w.WriteString(strings.Repeat("x", 100))
		}
		c := w.Take()
		if i > 0 && c.Segments() != 1 {
			t.Errorf("message %d has %d segments", i, c.Segments())
		}
		c.Free()
	}
}

// TestWriterAppendKeepsReferences: what is appended by reference is not copied.
func TestWriterAppendKeepsReferences(t *testing.T) {
	p := tarntest.NewPool(t)
	w := tarn.NewWriter(p)
	var want []*byte
	for range 20 {
		w.WriteString("frame header")
		b := p.Get(16 << 10)
		want = append(want, &b.Bytes()[0])
		w.Append(b)
	}
	c := w.Take()
	defer c.Free()
	views, err := c.Peek(c.Len(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range views {
		if len(want) > 0 && &v[0] == want[0] {
			want = want[1:]
		}
	}
	if len(want) > 0 {
		t.Errorf("%d of 20 were copied", len(want))
	}
	if c.Segments() != 40 {
		t.Errorf("%d segments", c.Segments())
	}
}

// TestZeroWriter writes to the shared pool.
func TestZeroWriter(t *testing.T) {
	var w tarn.Writer
	w.WriteString("hello")
	c := w.Take()
	b, err := c.Next(5)
	if err != nil || string(b.Bytes()) != "hello" {
		t.Errorf("%q, %v", b.Bytes(), err)
	}
	if !b.Unique() {
		t.Error("the writer still holds a reference to what it gave out")
	}
	b.Free()
}

// stingy returns fewer bytes than it was asked for.
type stingy struct{}

func (stingy) Get(int) tarn.Buffer { return tarn.Buffer{} }

func TestBrokenAllocator(t *testing.T) {
	if caught(func() { tarn.NewWriter(stingy{}).Write([]byte("x")) }) == nil {
		t.Error("a Write without memory did not panic")
	}
}

// TestWriterForgetsLargeMessages: a small message after a large one does not keep a large slab.
func TestWriterForgetsLargeMessages(t *testing.T) {
	p := tarntest.NewPool(t)
	w := tarn.NewWriter(p)
	w.Write(make([]byte, 60_000))
	large := w.Take()
	large.Free()
	w.WriteString("small")
	c := w.Take()
	defer c.Free()
	if in := p.Stats().InUse; in > 512 {
		t.Errorf("%d bytes keep %d", c.Len(), in)
	}
}

var (
	_ io.WriterTo     = (*tarn.Chain)(nil)
	_ io.ReaderFrom   = (*tarn.Chain)(nil)
	_ io.ByteReader   = (*tarn.Chain)(nil)
	_ io.Reader       = (*tarn.Chain)(nil)
	_ io.ByteWriter   = (*tarn.Writer)(nil)
	_ io.StringWriter = (*tarn.Writer)(nil)
	_ io.ReaderFrom   = (*tarn.Writer)(nil)
)

// A writeModel is a Writer beside the bytes written to it and those moved out of it.
type writeModel struct {
	t     *testing.T
	pool  *tarn.Pool
	arena *tarn.Arena
	w     *tarn.Writer
	want  []byte
	out   tarn.Chain
	moved []byte
	next  byte

	written            int
	wrapped, unwrapped int // foreign buffers made, and released
}

// maxWritten bounds the bytes that a program writes, which ReadFrom may get one by one. The fuzzer ends a process that
// works on one input for 10 s.
const maxWritten = 2 << 20

func runWriter(t *testing.T, code []byte) {
	m := &writeModel{t: t, pool: tarntest.NewPool(t)}
	m.arena = tarn.NewArena(m.pool, 4096)
	m.w = tarn.NewWriter(m.pool)
	p := program{code}
	for len(p.rest) > 0 && m.written < maxWritten && !t.Failed() {
		m.step(&p)
		if m.w.Len() != len(m.want) || m.out.Len() != len(m.moved) {
			t.Fatalf("Len is %d and %d, want %d and %d", m.w.Len(), m.out.Len(), len(m.want), len(m.moved))
		}
	}
	m.w.MoveTo(&m.out)
	m.moved = append(m.moved, m.want...)
	got, err := io.ReadAll(&m.out)
	if err != nil || !bytes.Equal(got, m.moved) {
		t.Errorf("read %d bytes (%v), want %d", len(got), err, len(m.moved))
	}
	m.w.Free()
	m.out.Free()
	m.arena.Free()
	if m.wrapped != m.unwrapped {
		t.Errorf("%d of %d foreign buffers were released", m.unwrapped, m.wrapped)
	}
}

func (m *writeModel) bytes(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = m.next
		m.next++
	}
	m.want = append(m.want, p...)
	m.written += n
	return p
}

func (m *writeModel) step(p *program) {
	switch p.byte() % 16 {
	case 0, 1, 2:
		q := m.bytes(p.byte())
		if n, err := m.w.Write(q); n != len(q) || err != nil {
			m.t.Errorf("Write of %d = %d, %v", len(q), n, err)
		}
	case 3:
		q := m.bytes(p.size() * 3)
		if n, err := m.w.Write(q); n != len(q) || err != nil {
			m.t.Errorf("Write of %d = %d, %v", len(q), n, err)
		}
	case 4:
		for range p.byte() {
			if err := m.w.WriteByte(m.bytes(1)[0]); err != nil {
				m.t.Error(err)
			}
		}
	case 5:
		q := m.bytes(p.size())
		if n, err := m.w.WriteString(string(q)); n != len(q) || err != nil {
			m.t.Errorf("WriteString of %d = %d, %v", len(q), n, err)
		}
	case 6:
		m.w.Append(m.pool.Copy(m.bytes(p.size())))
	case 7:
		b := m.pool.Copy(m.bytes(p.size()))
		kept := b.Ref() // so that the slab is shared
		m.w.Append(b)
		kept.Free()
	case 8:
		q := m.bytes(p.size())
		if n, err := m.w.ReadFrom(&dribble{rest: q, step: p.byte() + 1}); n != int64(len(q)) || err != nil {
			m.t.Errorf("ReadFrom of %d = %d, %v", len(q), n, err)
		}
	case 9:
		m.w.MoveTo(&m.out)
		m.moved = append(m.moved, m.want...)
		m.want = nil
	case 10:
		c := m.w.Take()
		if c.Len() != len(m.want) {
			m.t.Errorf("moved out %d bytes of %d", c.Len(), len(m.want))
		}
		m.out.AppendChain(&c)
		m.moved = append(m.moved, m.want...)
		m.want = nil
	case 11:
		m.want = nil
		if p.byte()%2 == 0 {
			m.w.Reset(m.arena)
		} else {
			m.w.Reset(m.pool)
		}
	case 12:
		q := m.bytes(p.size())
		m.wrapped++
		m.w.Append(m.pool.Wrap(q, func([]byte) { m.unwrapped++ }))
	case 13:
		b := m.arena.Get(p.byte())
		copy(b.Bytes(), m.bytes(b.Len()))
		m.w.Append(b)
	case 14:
		q := m.bytes(p.size())
		f := faults[p.byte()%len(faults)]
		if n, err := m.w.ReadFrom(&faultyReader{dribble{q, p.byte() + 1}, f}); n != int64(len(q)) || err != f.wantRead {
			m.t.Errorf("ReadFrom of %d = %d, %v; want %v", len(q), n, err, f.wantRead)
		}
	case 15:
		if p.byte()%4 == 0 {
			m.w.Free()
			m.want = nil
		}
	}
}

func TestWriterModel(t *testing.T) { runPrograms(t, 80, 300, runWriter) }

func FuzzWriter(f *testing.F) { fuzzPrograms(f, 8, 200, runWriter) }
