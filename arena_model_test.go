package tarn_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/tarn-go/tarn"
)

// An arenaModel is some references cut from arenas of one pool beside the bytes that each should show.
type arenaModel struct {
	t      *testing.T
	config tarn.PoolConfig
	pool   *tarn.Pool
	arenas [2]*tarn.Arena
	held   []piece
	next   byte
	work   int // bytes compared; bounded by maxArenaWork
}

// A piece is a reference and what it should show. Those that show the same bytes were written once, by their first.
type piece struct {
	buffer tarn.Buffer
	want   []byte
}

const maxArenaWork = 8 << 20

// runArena runs a program whose first bytes choose the pool's config and the arenas' chunks.
func runArena(t *testing.T, code []byte) {
	p := program{code}
	m := &arenaModel{t: t, config: tarn.PoolConfig{
		Check:   []tarn.CheckLevel{tarn.CheckOff, tarn.CheckAll}[p.byte()%2],
		Zero:    tarn.ZeroPolicy(p.byte() % 3),
		Retain:  []int64{0, tarn.RetainNothing, 5000}[p.byte()%3],
		Classes: [][]int{nil, {4096}, {100, 1000, 10000}}[p.byte()%3],
		Report:  withoutPanic(t),
	}}
	m.pool = newPool(t, m.config)
	for i := range m.arenas {
		m.arenas[i] = tarn.NewArena(m.pool, p.size())
	}
	for len(p.rest) > 0 && m.work < maxArenaWork && !t.Failed() {
		m.step(&p)
		m.check()
	}
	for len(m.held) > 0 {
		m.free(p.upTo(len(m.held) - 1))
	}
	for _, a := range m.arenas {
		a.Free()
	}
	if st := m.pool.Stats(); st.InUse != 0 || st.InUseBuffers != 0 || st.Gets != st.Frees || len(m.pool.Outstanding()) != 0 {
		t.Errorf("with nothing held: %+v, %v", st, m.pool.Outstanding())
	}
}

func (m *arenaModel) step(p *program) {
	op, a := p.byte(), m.arenas[p.byte()%2]
	if len(m.held) == 0 {
		op = 0
	}
	i := 0
	if op%16 > 5 {
		i = p.upTo(len(m.held) - 1)
	}
	switch op % 16 {
	case 0, 1, 2, 3, 4:
		m.add(a.Get(p.byte()))
	case 5:
		m.add(a.Get(p.size()))
	case 6, 7, 8, 9, 10:
		m.free(i)
	case 11:
		h := m.held[i]
		m.held = append(m.held, piece{h.buffer.Ref(), h.want})
	case 12:
		h := m.held[i]
		from := p.upTo(len(h.want))
		to := from + p.upTo(len(h.want)-from)
		m.held = append(m.held, piece{h.buffer.Slice(from, to), h.want[from:to]})
	case 13:
		h := m.held[i]
		n := p.upTo(len(h.want))
		head, tail := h.buffer.Split(n)
		m.held[i] = piece{head, h.want[:n]}
		m.held = append(m.held, piece{tail, h.want[n:]})
	case 14:
		h := m.held[i]
		n := p.byte()
		b, grown := h.buffer.GrowTail(n)
		if grown {
			added := b.Bytes()[len(h.want):]
			m.fresh(added)
			m.number(added)
			m.held[i] = piece{b, append(bytes.Clone(h.want), added...)}
		}
	case 15:
		a.Free()
	}
}

// add holds a reference that an arena handed out, whose bytes nothing else shows, and writes them.
func (m *arenaModel) add(b tarn.Buffer) {
	m.fresh(b.Bytes())
	m.number(b.Bytes())
	m.held = append(m.held, piece{b, bytes.Clone(b.Bytes())})
}

// fresh checks bytes that were just handed out.
func (m *arenaModel) fresh(p []byte) {
	if m.config.Zero == tarn.ZeroOnGet && !bytes.Equal(p, make([]byte, len(p))) {
		m.t.Errorf("%d bytes are not cleared", len(p))
	}
}

func (m *arenaModel) number(p []byte) {
	for i := range p {
		m.next++
		p[i] = m.next | 1
	}
}

// free frees one reference. Where checks track it, a further use of it must be found at once.
func (m *arenaModel) free(i int) {
	b := m.held[i].buffer
	b.Free()
	if tracked := m.config.Check == tarn.CheckAll; tracked && !b.IsZero() {
		for name, use := range map[string]func(){"Bytes": func() { b.Bytes() }, "Ref": func() { b.Ref() }, "Free": b.Free} {
			var misuse *tarn.Misuse
			if err, ok := caught(use).(error); !ok || !errors.As(err, &misuse) {
				m.t.Errorf("%s of a reference that was freed is not found", name)
			}
		}
	}
	last := len(m.held) - 1
	m.held[i] = m.held[last]
	m.held = m.held[:last]
}

func (m *arenaModel) check() {
	for i, h := range m.held {
		if !bytes.Equal(h.buffer.Bytes(), h.want) {
			m.t.Fatalf("reference %d of %d: %d bytes are not those written", i, len(m.held), len(h.want))
		}
		m.work += len(h.want) + 50
	}
}

func TestArenaModel(t *testing.T) { runPrograms(t, 100, 600, runArena) }

func FuzzArena(f *testing.F) { fuzzPrograms(f, 12, 300, runArena) }
