package tarn_test

import (
	"bytes"
	"errors"
	"strconv"
	"sync"
	"testing"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
)

func TestArenaCutsNeighbours(t *testing.T) {
	for _, level := range []tarn.CheckLevel{tarn.CheckOff, tarn.CheckAll} {
		t.Run(level.String(), func(t *testing.T) {
			p := newPool(t, tarn.PoolConfig{Check: level})
			a := tarn.NewArena(p, 1<<10)
			var held []tarn.Buffer
			for i := range 1000 {
				b := a.Get(1 + i%100)
				for k := range b.Bytes() {
					b.Bytes()[k] = byte(i)
				}
				held = append(held, b)
			}
			for i, b := range held {
				for _, v := range b.Bytes() {
					if v != byte(i) {
						t.Fatalf("buffer %d was overwritten", i)
					}
				}
				b.Free()
			}
			a.Free()
			if st := p.Stats(); st.InUseBuffers != 0 || st.Gets != st.Frees {
				t.Errorf("chunks are out: %+v", st)
			}
			if n := len(p.Outstanding()); n != 0 {
				t.Errorf("%d outstanding", n)
			}
		})
	}
}

func TestArenaEdges(t *testing.T) {
	p := tarntest.NewPool(t)
	a := tarn.NewArena(p, 1<<10)
	defer a.Free()
	if !a.Get(0).IsZero() || caught(func() { a.Get(-1) }) == nil {
		t.Error("Get of nothing, or less")
	}
	big := a.Get(257) // more than a quarter of a chunk
	if big.Pinned() == 1<<10 {
		t.Error("an over-size buffer was cut from a chunk")
	}
	big.Free()
	for _, chunk := range []int{-1, 0, 1, 1 << 30} {
		a := tarn.NewArena(p, chunk)
		a.Get(10).Free()
		a.Free()
		a.Free()
	}
	shared := tarn.NewArena(nil, 1<<10)
	shared.Get(10).Free()
	shared.Free()
}

// What is too long to be cut is the pool's in every respect.
func TestArenaTakesLongBuffersFromThePool(t *testing.T) {
	for name, config := range map[string]tarn.PoolConfig{
		"plain":      {},
		"budget":     {Budget: 1 << 30},
		"cleared":    {Zero: tarn.ZeroOnGet},
		"tracked":    {Check: tarn.CheckAll},
		"unretained": {Retain: tarn.RetainNothing},
	} {
		t.Run(name, func(t *testing.T) {
			config.Classes = []int{16 << 10, 64 << 10}
			p := newPool(t, config)
			a := tarn.NewArena(p, 64<<10)
			defer a.Free()
			for i, n := range []int{16 << 10, 16 << 10, 64 << 10, 64<<10 + 1} {
				b := a.Get(n)
				st := p.Stats()
				if b.Len() != n || !b.Unique() || st.InUseBuffers != 1 || st.Gets != uint64(i+1) {
					t.Errorf("%d bytes: length %d, unique %v, %d of %d buffers in use", n, b.Len(), b.Unique(), st.InUseBuffers, st.Gets)
				}
				if config.Zero == tarn.ZeroOnGet && !bytes.Equal(b.Bytes(), make([]byte, n)) {
					t.Errorf("%d bytes are not cleared", n)
				}
				for j := range n {
					b.Bytes()[j] = 'x'
				}
				b.Free()
			}
			if st := p.Stats(); st.InUse != 0 || st.Leaked != 0 {
				t.Errorf("at the end %d bytes are in use and %d buffers leaked", st.InUse, st.Leaked)
			}
		})
	}
}

// A chunk is not kept from its pool longer than its last reference, unless it is being cut.
func TestArenaStrandsNothing(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{Check: tarn.CheckOff})
	a := tarn.NewArena(p, 1<<10)
	for range 10_000 {
		a.Get(100).Free()
	}
	if st := p.Stats(); st.InUseBuffers > 64 {
		t.Errorf("%d chunks are out with nothing cut from them", st.InUseBuffers)
	}
	last := a.Get(100)
	a.Free()
	if st := p.Stats(); st.InUseBuffers != 1 {
		t.Errorf("%d chunks out after Free, one is referenced", st.InUseBuffers)
	}
	last.Free()
	if st := p.Stats(); st.InUseBuffers != 0 || st.Gets != st.Frees {
		t.Errorf("at the end: %+v", st)
	}
}

// A chunk is cut to the end of its slab, which may be longer than was asked for, and have been used before.
func TestArenaClearsAllOfAChunk(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{Classes: []int{4096}, Zero: tarn.ZeroOnGet})
	a := tarn.NewArena(p, 1024)
	var held []tarn.Buffer
	for range 200 {
		for range 4096 / 64 {
			b := a.Get(64)
			if !bytes.Equal(b.Bytes(), make([]byte, 64)) {
				t.Fatal("64 bytes are not cleared")
			}
			for i := range b.Bytes() {
				b.Bytes()[i] = 'x'
			}
			held = append(held, b)
		}
		for _, b := range held {
			b.Free()
		}
		held = held[:0]
		a.Free()
	}
}

// A slab longer than MaxChunk could be cut into more pieces than its state counts.
func TestArenaOfHugeClasses(t *testing.T) {
	for _, size := range []int{tarn.MaxChunk + 1, 512 << 20} {
		if size > 32<<20 && (strconv.IntSize == 32 || raceEnabled) {
			continue // there may be no room for it
		}
		p := newPool(t, tarn.PoolConfig{Classes: []int{size}})
		a := tarn.NewArena(p, tarn.MaxChunk)
		first, next := a.Get(64), a.Get(1)
		if first.Len() != 64 || next.Len() != 1 {
			t.Errorf("%d bytes: pieces of %d and %d bytes", size, first.Len(), next.Len())
		}
		next.Free()
		a.Free()
		first.Free()
		if st := p.Stats(); st.InUse != 0 || st.Gets != st.Frees {
			t.Errorf("%d bytes: with nothing held: %+v", size, st)
		}
	}
}

func TestArenaConcurrently(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{Check: tarn.CheckOff})
	a := tarn.NewArena(p, 256)
	var wg sync.WaitGroup
	for g := range 100 {
		wg.Go(func() {
			var held [8]tarn.Buffer
			for i := range 2000 {
				k := i % len(held)
				if !held[k].IsZero() && held[k].Bytes()[0] != byte(g) {
					t.Error("another goroutine's bytes")
					return
				}
				held[k].Free()
				held[k] = a.Get(1 + i%60)
				for j := range held[k].Bytes() {
					held[k].Bytes()[j] = byte(g)
				}
				if i%500 == 499 {
					a.Free()
				}
			}
			for _, b := range held {
				b.Free()
			}
		})
	}
	wg.Wait()
	a.Free()
	if st := p.Stats(); st.InUseBuffers != 0 || st.Gets != st.Frees {
		t.Errorf("chunks are out: %+v", st)
	}
}

func TestForgottenArenaIsNoLeak(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{Check: tarn.CheckOff})
	func() { tarn.NewArena(p, 1<<10).Get(10).Free() }() //tarn:owned it is left to the garbage collector, which is what the test is about
	collect(t, "without chunks", func() bool { return p.Stats().InUseBuffers == 0 })
	if st := p.Stats(); st.Leaked != 0 {
		t.Errorf("%d leaked", st.Leaked)
	}
}

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
