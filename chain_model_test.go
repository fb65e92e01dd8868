package tarn_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
)

// A ropeModel is a chain beside the plain bytes that it should hold. Its operations are driven by a
// stream of bytes, so that the same machine serves property tests and the fuzzer.
type ropeModel struct {
	t     *testing.T
	pool  *tarn.Pool
	chain tarn.Chain
	want  []byte
	other tarn.Chain // where CutTo moves bytes to
	moved []byte
	slab  tarn.Buffer // what fragments are cut from
	next  byte        // value of the next byte that is made
	work  int         // see maxWork

	arena              *tarn.Arena
	wrapped, unwrapped int // foreign buffers made, and released
}

// program is a stream of operations.
type program struct{ rest []byte }

func (p *program) byte() int {
	if len(p.rest) == 0 {
		return 0
	}
	v := p.rest[0]
	p.rest = p.rest[1:]
	return int(v)
}

// size is a length from 0 to 32 KiB, mostly small.
func (p *program) size() int { return p.byte() << (p.byte() % 8) }

// upTo is a number from 0 to n.
func (p *program) upTo(n int) int { return (p.byte()<<16 | p.byte()<<8 | p.byte()) % (n + 1) }

// maxWork bounds the bytes that a program makes check compare; a segment counts as 100, and a fragment, whose references
// are recorded with their stacks, as 5,000. The fuzzer ends a process that works on one input for 10 s.
const maxWork = 64 << 20

func runRope(t *testing.T, code []byte) {
	m := &ropeModel{t: t, pool: tarntest.NewPool(t)}
	m.arena = tarn.NewArena(m.pool, 4096)
	p := program{code}
	for len(p.rest) > 0 && m.work < maxWork && !t.Failed() {
		m.step(&p)
		m.check()
		m.work += m.chain.Len() + 100*m.chain.Segments()
	}
	m.drain()
}

// drain reads everything out, and checks that all slabs returned to the pool.
func (m *ropeModel) drain() {
	t := m.t
	got, err := io.ReadAll(&m.chain)
	if err != nil || !bytes.Equal(got, m.want) {
		t.Errorf("read %d bytes (%v), want %d", len(got), err, len(m.want))
	}
	m.chain.Free()
	m.other.Free()
	m.slab.Free()
	m.arena.Free()
	if s := m.pool.Stats(); s.InUseBuffers != 0 || m.wrapped != m.unwrapped {
		t.Errorf("%d slabs are out after Free, and %d of %d foreign buffers were released", s.InUseBuffers, m.unwrapped, m.wrapped)
	}
}

// buffer makes a Buffer of n new bytes.
func (m *ropeModel) buffer(n int) tarn.Buffer {
	b := m.pool.Get(n)
	m.number(b.Bytes())
	return b
}

func (m *ropeModel) number(p []byte) {
	for i := range p {
		p[i] = m.next
		m.next++
	}
}

// fragment cuts up to n bytes off a slab shared with earlier and later fragments, skipping some.
func (m *ropeModel) fragment(n, skip int) tarn.Buffer {
	if m.slab.Len() < n+skip {
		m.slab.Free()
		m.slab = m.pool.Get(max(32<<10, n+skip))
		m.number(m.slab.Bytes())
	}
	var head tarn.Buffer
	head, m.slab = m.slab.Split(n + skip)
	m.work += 5000
	return head.Narrow(skip, n+skip)
}

func (m *ropeModel) step(p *program) {
	switch p.byte() % 24 {
	case 0:
		b := m.buffer(p.size())
		m.want = b.AppendTo(m.want)
		m.chain.Append(b)
	case 1, 2:
		b := m.fragment(p.byte(), p.byte()%3)
		m.want = b.AppendTo(m.want)
		m.chain.Append(b)
	case 3:
		b := m.fragment(p.byte()*4, p.byte()*4)
		m.want = b.AppendTo(m.want)
		m.chain.Append(b)
	case 4:
		for range p.byte() {
			b := m.fragment(1, 1)
			m.want = b.AppendTo(m.want)
			m.chain.Append(b)
		}
	case 5:
		b := m.buffer(p.size())
		m.want = append(b.AppendTo(nil), m.want...)
		m.chain.Prepend(b)
	case 6:
		q := make([]byte, p.byte())
		m.number(q)
		m.want = append(bytes.Clone(q), m.want...)
		m.chain.PrependBytes(q)
	case 7:
		n := p.upTo(len(m.want))
		if got, err := m.chain.Discard(n); got != n || err != nil {
			m.t.Errorf("Discard(%d) = %d, %v", n, got, err)
		}
		m.want = m.want[n:]
	case 8:
		n := p.upTo(len(m.want))
		if err := m.chain.CutTo(&m.other, n); err != nil {
			m.t.Errorf("CutTo(%d): %v", n, err)
		}
		m.moved = append(m.moved, m.want[:n]...)
		m.want = m.want[n:]
	case 9:
		n := p.upTo(len(m.want))
		c, err := m.chain.Cut(n)
		if err != nil {
			m.t.Errorf("Cut(%d): %v", n, err)
		}
		m.other.AppendChain(&c)
		m.moved = append(m.moved, m.want[:n]...)
		m.want = m.want[n:]
	case 10:
		m.chain.AppendChain(&m.other)
		m.want = append(m.want, m.moved...)
		m.moved = nil
	case 11:
		n := p.upTo(min(len(m.want), 5000))
		b, err := m.chain.Next(n)
		if err != nil || !bytes.Equal(b.Bytes(), m.want[:n]) {
			m.t.Errorf("Next(%d): %d bytes, %v", n, b.Len(), err)
		}
		b.Free()
		m.want = m.want[n:]
	case 12:
		q := make([]byte, p.size())
		n, err := m.chain.Read(q)
		if want := min(len(q), len(m.want)); n != want || !bytes.Equal(q[:n], m.want[:n]) || (err != nil) != (n < len(q) && n == 0) {
			m.t.Errorf("Read of %d = %d, %v; want %d", len(q), n, err, want)
		}
		m.want = m.want[n:]
	case 13:
		v, err := m.chain.ReadByte()
		switch {
		case len(m.want) == 0:
			if err != io.EOF {
				m.t.Errorf("ReadByte of nothing: %v", err)
			}
		case err != nil || v != m.want[0]:
			m.t.Errorf("ReadByte = %d, %v; want %d", v, err, m.want[0])
		default:
			m.want = m.want[1:]
		}
	case 14:
		q := make([]byte, p.size())
		m.number(q)
		n, err := m.chain.ReadFrom(&dribble{rest: q, step: p.byte() + 1})
		if n != int64(len(q)) || err != nil {
			m.t.Errorf("ReadFrom of %d = %d, %v", len(q), n, err)
		}
		m.want = append(m.want, q...)
	case 15:
		var out bytes.Buffer
		if n, err := m.chain.WriteTo(&out); n != int64(len(m.want)) || err != nil || !bytes.Equal(out.Bytes(), m.want) {
			m.t.Errorf("WriteTo = %d, %v; want %d", n, err, len(m.want))
		}
		m.want = nil
	case 16:
		m.chain.Shrink()
		if held := m.chain.Held(); held > 4*len(m.want)+4<<10 {
			m.t.Errorf("%d bytes hold %d of heap after Shrink", len(m.want), held)
		}
	case 17:
		same := m.chain.Ref()
		if got, err := io.ReadAll(&same); err != nil || !bytes.Equal(got, m.want) {
			m.t.Errorf("Ref has %d bytes of %d (%v)", len(got), len(m.want), err)
		}
	case 18:
		n := m.chain.Segments()
		b := m.chain.NextSegment()
		if n > 0 && (b.Len() == 0 || m.chain.Segments() != n-1) || !bytes.HasPrefix(m.want, b.Bytes()) {
			m.t.Errorf("NextSegment of %d has %d bytes, or not those", n, b.Len())
		}
		m.want = m.want[b.Len():]
		b.Free()
	case 19:
		q := make([]byte, p.size())
		m.number(q)
		m.want = append(m.want, q...)
		m.wrapped++
		m.chain.Append(m.pool.Wrap(q, func([]byte) { m.unwrapped++ }))
	case 20:
		for range p.byte() % 20 {
			b := m.arena.Get(p.byte())
			m.number(b.Bytes())
			m.want = b.AppendTo(m.want)
			m.chain.Append(b)
		}
	case 21:
		w := &faultyWriter{room: p.upTo(len(m.want)), fault: faults[p.byte()%len(faults)]}
		n, err := m.chain.WriteTo(w)
		if int(n) != len(w.got) || !bytes.HasPrefix(m.want, w.got) {
			m.t.Errorf("WriteTo = %d, %v; the writer has %d bytes, or not those", n, err, len(w.got))
		}
		if done := int(n) == len(m.want); (err == nil) != done || !done && err != w.fault.want && err != w.short {
			m.t.Errorf("WriteTo of %d = %d, %v; want %v", len(m.want), n, err, w.fault.want)
		}
		m.want = m.want[n:]
	case 22:
		q := make([]byte, p.size())
		m.number(q)
		f := faults[p.byte()%len(faults)]
		n, err := m.chain.ReadFrom(&faultyReader{dribble{q, p.byte() + 1}, f})
		if n != int64(len(q)) || err != f.wantRead {
			m.t.Errorf("ReadFrom of %d = %d, %v; want %v", len(q), n, err, f.wantRead)
		}
		m.want = append(m.want, q...)
	case 23:
		if p.byte()%4 == 0 { // seldom, as it ends what was built up
			m.chain.Free()
			m.want = nil
		}
	}
}

// check compares the chain with the model in every way that changes neither.
func (m *ropeModel) check() {
	t, c := m.t, &m.chain
	if c.Len() != len(m.want) || m.other.Len() != len(m.moved) {
		t.Fatalf("Len is %d and %d, want %d and %d", c.Len(), m.other.Len(), len(m.want), len(m.moved))
	}
	views, err := c.Peek(c.Len(), nil)
	if err != nil || len(views) != c.Segments() || !bytes.Equal(bytes.Join(views, nil), m.want) {
		t.Fatalf("Peek: %v, %d views of %d segments, or not the bytes", err, len(views), c.Segments())
	}
	if got, err := c.Peek(c.Len()+1, views); !errors.Is(err, tarn.ErrShort) || len(got) != len(views) {
		t.Fatalf("Peek beyond the end: %v", err)
	}
	if n := c.Residue() + m.other.Residue(); n != 0 {
		t.Fatalf("%d references are kept that are no segments", n)
	}
	q := make([]byte, len(m.want)/2+1)
	if n := c.CopyTo(q); n != min(len(q), len(m.want)) || !bytes.Equal(q[:n], m.want[:n]) {
		t.Fatalf("CopyTo of %d: %d", len(q), n)
	}
	if got, want := c.IndexByte(m.next), bytes.IndexByte(m.want, m.next); got != want {
		t.Fatalf("IndexByte(%d) = %d, want %d", m.next, got, want)
	}
}

// dribble reads step bytes at a time.
type dribble struct {
	rest []byte
	step int
}

func (d *dribble) Read(p []byte) (int, error) {
	if len(d.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, d.rest[:min(d.step, len(d.rest))])
	d.rest = d.rest[n:]
	return n, nil
}

// A fault is how a reader or writer fails: the count and the error that it returns.
type fault struct {
	count    int
	err      error
	want     error // of WriteTo
	wantRead error // of ReadFrom
}

var errFaulty = errors.New("a fault")

var faults = []fault{
	{0, errFaulty, errFaulty, errFaulty},
	{0, nil, io.ErrShortWrite, io.ErrNoProgress},
	{-1, nil, tarn.ErrCount, tarn.ErrCount},
	{1 << 30, nil, tarn.ErrCount, tarn.ErrCount},
}

// faultyReader fails once it has been read.
type faultyReader struct {
	dribble
	fault fault
}

func (r *faultyReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		return r.fault.count, r.fault.err
	}
	return r.dribble.Read(p)
}

// faultyWriter fails once it has taken room bytes.
type faultyWriter struct {
	got   []byte
	room  int
	fault fault
	short error // io.ErrShortWrite, if it took a part and returned no error
}

func (w *faultyWriter) Write(p []byte) (int, error) {
	if len(p) <= w.room {
		w.room -= len(p)
		w.got = append(w.got, p...)
		return len(p), nil
	}
	if w.room == 0 {
		return w.fault.count, w.fault.err
	}
	n := w.room
	w.room = 0
	w.got = append(w.got, p[:n]...)
	if w.fault.err == nil {
		w.short = io.ErrShortWrite
	}
	return n, w.fault.err
}

func TestChainModel(t *testing.T) { runPrograms(t, 100, 400, runRope) }

func FuzzChain(f *testing.F) { fuzzPrograms(f, 8, 300, runRope) }

// programs is how many of n random programs of one goroutine run: a fifth with -short, and under the race detector,
// which finds nothing in them and makes them ten times slower.
func programs(n int) int {
	if raceEnabled || testing.Short() {
		return n / 5
	}
	return n
}

func randomProgram(seed uint64, n int) []byte {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	code := make([]byte, n)
	rand.NewChaCha8(key).Read(code)
	return code
}

// runPrograms runs n random programs of some length in bytes; a failure names the seed that makes it again.
func runPrograms(t *testing.T, n, length int, run func(*testing.T, []byte)) {
	for range programs(n) {
		seed := rand.Uint64()
		code := randomProgram(seed, length)
		if !t.Run("", func(t *testing.T) { run(t, code) }) {
			t.Fatalf("seed %#x", seed)
		}
	}
}

// fuzzPrograms fuzzes run with programs, of which so many random ones are the first.
func fuzzPrograms(f *testing.F, n uint64, length int, run func(*testing.T, []byte)) {
	for seed := range n {
		f.Add(randomProgram(seed, length))
	}
	f.Fuzz(func(t *testing.T, code []byte) { run(t, code[:min(len(code), 1000)]) })
}
