package message

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tarn-go/tarn/tarntest"
)

func frame(body []byte) []byte {
	p := make([]byte, PrefixLen, PrefixLen+len(body))
	binary.BigEndian.PutUint32(p[1:], uint32(len(body)))
	return append(p, body...)
}

func fill(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 13)
	}
	return b
}

// TestAssemble sends messages divided in every way, landing them or not, and reads them back.
func TestAssemble(t *testing.T) {
	pool := tarntest.NewPool(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	var grants Allowance
	for range 300 {
		var stream []byte
		var want [][]byte
		for range 1 + rnd.IntN(5) {
			n := []int{0, 1, 4, 100, joinBelow, 16 << 10, landFrom - 1, landFrom, 200000}[rnd.IntN(9)]
			want = append(want, fill(n))
			stream = append(stream, frame(fill(n))...)
		}
		var a Assembler
		got := 0
		take := func() {
			for {
				m, kind, size, ok, err := a.Next(1 << 20)
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					return
				}
				if kind != Plain || size != len(want[got]) || !bytes.Equal(m.Flatten(), want[got]) {
					t.Fatalf("message %d differs", got)
				}
				m.Free()
				got++
			}
		}
		for len(stream) > 0 {
			k := min(len(stream), 1+rnd.IntN([]int{3, 1000, 100000}[rnd.IntN(3)]))
			if dst := a.Land(pool, 1<<20, &grants, nil); dst != nil && rnd.IntN(2) == 0 {
				k = copy(dst, stream[:k])
				a.Landed(k)
			} else {
				a.Append(pool.Copy(stream[:k]))
				if rnd.IntN(2) == 0 {
					a.Gather(pool, 1<<20)
				}
			}
			stream = stream[k:]
			take()
		}
		if got != len(want) || a.Len() != 0 {
			t.Fatalf("%d of %d messages, %d bytes left", got, len(want), a.Len())
		}
		a.Free()
	}
}

func TestAssemblerRefuses(t *testing.T) {
	pool := tarntest.NewPool(t)
	var a Assembler
	a.Append(pool.Copy(frame(make([]byte, 100))[:PrefixLen]))
	if _, _, size, _, err := a.Next(99); !errors.Is(err, ErrTooLarge) || size != 100 {
		t.Fatal(size, err)
	}
	a.Free()
	a.Append(pool.Copy([]byte{2, 0, 0, 0, 0}))
	if _, _, _, _, err := a.Next(99); !errors.Is(err, ErrFlag) {
		t.Fatal(err)
	}
	a.Free()
}

// TestDeclaredLength declares much and sends little: the memory held depends on what was sent.
func TestDeclaredLength(t *testing.T) {
	pool := tarntest.NewPool(t)
	var grants Allowance
	var a Assembler
	a.Append(pool.Copy(frame(make([]byte, 100<<20))[:PrefixLen+1]))
	if a.Land(pool, 1<<30, &grants, nil) == nil {
		t.Fatal("does not land")
	}
	if used := pool.Stats().InUse; used > 128<<10 {
		t.Fatalf("%d bytes taken for one that arrived", used)
	}
	a.Free()
}

// TestLongestDeclared: lengths that an int of 32 bits does not have, or just has, are refused, and cause no large buffer if the
// limit allows them.
func TestLongestDeclared(t *testing.T) {
	for _, size := range []uint32{math.MaxUint32, 1 << 31, math.MaxInt32, math.MaxInt32 - 1, math.MaxInt32 - PrefixLen, math.MaxInt32 - 100} {
		for _, limit := range []int{4 << 20, math.MaxInt} {
			pool := tarntest.NewPool(t)
			var a Assembler
			a.Append(pool.Copy(binary.BigEndian.AppendUint32([]byte{0}, size)))
			a.Append(pool.Copy(make([]byte, 100)))
			landed := a.Land(pool, limit, nil, nil) != nil
			fits := uint64(size) <= uint64(limit) && uint64(size) < longest
			if landed != fits {
				t.Errorf("%d bytes with a limit of %d: memory for them is taken: %t", size, limit, landed)
			}
			if used := pool.Stats().InUse; used > 256<<10 {
				t.Errorf("%d bytes with a limit of %d: %d bytes taken", size, limit, used)
			}
			_, _, got, ok, err := a.Next(limit)
			if ok || errors.Is(err, ErrTooLarge) == fits {
				t.Errorf("%d bytes with a limit of %d: %t, %v", size, limit, ok, err)
			}
			if got < 0 {
				t.Errorf("%d bytes are %d", size, got)
			}
			a.Free()
		}
	}
}

func TestAllowance(t *testing.T) {
	var c Allowance
	if c.take(1) {
		t.Fatal("granted for nothing")
	}
	c.earn(1 << 20)
	if !c.take(1<<20) || c.take(1) {
		t.Fatal("not what was earned")
	}
	c.give(1 << 20)
	for range 100 {
		c.earn(1 << 20)
	}
	if !c.take(maxAllowance) || c.take(1) {
		t.Fatal("not bounded")
	}
}

func FuzzAssembler(f *testing.F) {
	f.Add(frame([]byte("hello")), uint8(3))
	f.Add(append(frame(nil), frame([]byte{1})...), uint8(1))
	f.Add([]byte{0, 255, 255, 255, 255, 1}, uint8(2))
	f.Add([]byte{7, 0, 0, 0, 0}, uint8(9))
	f.Add(append(frame(fill(joinBelow)), frame([]byte{1})...), uint8(200))
	f.Fuzz(func(t *testing.T, data []byte, cut uint8) {
		pool := tarntest.NewPool(t)
		var a Assembler
		defer a.Free()
		for len(data) > 0 {
			k := min(len(data), 1+int(cut))
			a.Append(pool.Copy(data[:k]))
			a.Gather(pool, 1<<16)
			data = data[k:]
			for {
				m, _, size, ok, err := a.Next(1 << 16)
				if err != nil {
					return
				}
				if !ok {
					break
				}
				if m.Len() != size {
					t.Fatalf("%d bytes for a size of %d", m.Len(), size)
				}
				m.Free()
			}
		}
	})
}

// A piece that waits holds at most eight times its length, or the smallest slab, however large the read was
// that it came with.
func TestShrink(t *testing.T) {
	for _, n := range []int{1, 4, 5, 100, 1000, 7000, 8192, 8193, 40_000} {
		pool := tarntest.NewPool(t)
		read := pool.Get(64 << 10)
		piece := read.Slice(10, 10+n)
		read.Free()
		copy(piece.Bytes(), frame(fill(100_000))[:n])
		var a Assembler
		a.Append(piece)
		a.Shrink()
		if held, bound := pool.Stats().InUse, int64(max(8*n, pool.ClassSize(1))); held > bound {
			t.Errorf("%d bytes hold %d, more than %d", n, held, bound)
		}
		if a.Len() != n {
			t.Errorf("%d bytes are %d", n, a.Len())
		}
		a.Free()
	}
}

// A large message that waits halfway holds at most twice what has arrived.
func TestPark(t *testing.T) {
	pool := tarntest.NewPool(t)
	body := fill(3_000_000)
	msg := frame(body)
	var a Assembler
	a.Append(pool.Copy(msg[:10]))
	at := 10
	for at < len(msg) {
		dst := a.Land(pool, 4<<20, nil, nil)
		n := min(copy(dst, msg[at:]), 10_000)
		a.Landed(n)
		at += n
		a.Park()
		if held := pool.Stats().InUse; held > int64(2*at+at/4+1024) {
			t.Fatalf("%d bytes hold %d", at, held)
		}
		if a.Memory() > 2*at {
			t.Fatalf("%d bytes count as %d", at, a.Memory())
		}
	}
	m, _, _, ok, err := a.Next(4 << 20)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	m.Flatten()
	if !bytes.Equal(m.Buf.Bytes(), body) {
		t.Error("another message has come")
	}
	m.Free()
	a.Free()
}

// TestAssembleWaiting takes messages while others wait behind them. Short ones are contiguous, so that none needs
// a Chain, whether the peer sent them in one piece or divided them.
func TestAssembleWaiting(t *testing.T) {
	pool := tarntest.NewPool(t)
	body := fill(100)
	text := frame(body)
	for name, cut := range map[string]int{"whole": len(text), "divided": 40} {
		t.Run(name, func(t *testing.T) {
			var a Assembler
			defer a.Free()
			for i := range 20 {
				a.Append(pool.Copy(text[:cut]))
				a.Append(pool.Copy(text[cut:]))
				if i < 8 { // that many wait
					continue
				}
				m, _, _, ok, err := a.Next(1 << 20)
				if !ok || err != nil || m.Chain != nil || !bytes.Equal(m.Buf.Bytes(), body) {
					t.Fatalf("the message is %d long in chain %v, %v, %v", m.Len(), m.Chain, ok, err)
				}
				m.Free()
			}
		})
	}
}

// TestGather: a message of which an eighth or more has arrived leaves the receive buffer, and is contiguous when it is
// complete. A shorter part takes no memory in advance, nor does a message that Land receives, or one that is refused.
func TestGather(t *testing.T) {
	const limit, receive = 1 << 20, 64 << 10
	for _, c := range []struct {
		size, first int
		gathered    bool
	}{
		{16 << 10, 16 << 10, true},
		{16 << 10, 8000, true},
		{16 << 10, PrefixLen + 2<<10, true},
		{16 << 10, PrefixLen + 2<<10 - 1, false},
		{16 << 10, 3, false},
		{joinBelow, joinBelow, true},
		{joinBelow - 1, joinBelow - 1, false},
		{landFrom - 1, landFrom - 1, true},
		{landFrom, landFrom, false},
		{limit + 1, 16 << 10, false},
		{16 << 10, PrefixLen + 16<<10, false}, // complete
	} {
		pool := tarntest.NewPool(t)
		stream := frame(fill(c.size))
		var a Assembler
		b := pool.Get(receive)
		copy(b.Bytes(), stream[:c.first])
		a.Append(b.Slice(0, c.first))
		b.Free()
		a.Gather(pool, limit)
		if held := pool.Stats().InUse; held < receive != c.gathered {
			t.Errorf("%d of %d bytes: %d bytes are held", c.first, c.size, held)
		}
		if c.gathered {
			if dst := a.Land(pool, limit, nil, nil); dst != nil {
				t.Errorf("%d of %d bytes: the rest is landed", c.first, c.size)
			}
			a.Append(pool.Copy(stream[c.first:]))
			a.Gather(pool, limit)
			m, _, _, ok, err := a.Next(limit)
			if !ok || err != nil || m.Chain != nil || !bytes.Equal(m.Buf.Bytes(), fill(c.size)) {
				t.Errorf("%d of %d bytes: %v, %v, in pieces: %v", c.first, c.size, ok, err, m.Chain != nil)
			}
			m.Free()
		}
		a.Free()
	}
}
