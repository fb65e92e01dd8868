package tarn_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
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
