package wire_test

import (
	"bytes"
	"math"
	"testing"

	"github.com/tarn-go/tarn/tarntest"
	"github.com/tarn-go/tarn/wire"
)

func TestLanding(t *testing.T) {
	pool := tarntest.NewPool(t)
	for _, n := range []int{1, 100, wire.DefaultTrust, wire.DefaultTrust + 1, 3_000_000} {
		data := pattern(n)
		var l wire.Landing
		l.Start(pool, n, 0)
		put := l.Put(data[:n/3])
		for l.Left() > 0 {
			if held, bound := int(pool.Stats().InUse), 2*max(wire.DefaultTrust, 5*put); held > bound {
				t.Fatalf("%d bytes held for %d", held, put)
			}
			p := l.Space()
			m := copy(p, data[put:min(n, put+10_000)])
			l.Filled(m)
			put += m
		}
		if l.Put([]byte{1}) != 0 {
			t.Fatal("a complete message accepts more bytes")
		}
		b := l.Take()
		if !bytes.Equal(b.Bytes(), data) || l.Active() {
			t.Fatal("another message landed")
		}
		b.Free()
		l.Start(pool, 10, 0)
		l.Free()
	}
}

// TestLandingCopies: growing copies less than a third of a message, however little of it is left at a step.
func TestLandingCopies(t *testing.T) {
	pool := tarntest.NewPool(t)
	for _, n := range []int{wire.DefaultTrust + 1, 100_000, 1 << 20, 1<<20 + 8, 5 << 18, 1_300_000, 3_000_000} {
		data := pattern(n)
		var l wire.Landing
		l.Start(pool, n, 0)
		copied := 0
		for put := 0; put < n; {
			before := l.Memory()
			put += l.Put(data[put:min(n, put+1000)])
			if l.Memory() != before {
				copied += before
			}
		}
		b := l.Take()
		if !bytes.Equal(b.Bytes(), data) {
			t.Error("another message landed")
		}
		b.Free()
		if copied > n/3+3 { // each step is rounded up
			t.Errorf("%d bytes of a message of %d are copied", copied, n)
		}
	}
}

// TestLandingOfAnyLength: whatever length a peer declares, also one near the longest that an int counts (2 GiB on 32-bit
// platforms), the first buffer has at most trust bytes.
func TestLandingOfAnyLength(t *testing.T) {
	pool := tarntest.NewPool(t)
	for short := range 8 {
		var l wire.Landing
		l.Start(pool, math.MaxInt-short, 0)
		if n := l.Memory(); n > wire.DefaultTrust || n < wire.DefaultTrust/4 {
			t.Errorf("%d bytes for a message of %d", n, math.MaxInt-short)
		}
		l.Free()
	}
}

func TestLandingMisuse(t *testing.T) {
	pool := tarntest.NewPool(t)
	for name, f := range map[string]func(l *wire.Landing){
		"Start twice": func(l *wire.Landing) { l.Start(pool, 1, 0) },
		"Take early":  func(l *wire.Landing) { l.Take() },
		"Filled":      func(l *wire.Landing) { l.Filled(11) },
		"Start of 0":  func(l *wire.Landing) { l.Free(); l.Start(pool, 0, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			var l wire.Landing
			l.Start(pool, 10, 0)
			defer l.Free()
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f(&l)
		})
	}
}

// TestLandingShrink has a message stop and go on after each piece: at most twice
// what has arrived is held whenever it stops, and all of it arrives.
func TestLandingShrink(t *testing.T) {
	pool := tarntest.NewPool(t)
	const n = 1_000_000
	data := pattern(n)
	var l wire.Landing
	l.Start(pool, n, 0)
	l.Shrink() // nothing has arrived
	if m := l.Memory(); m > wire.DefaultTrust || 4*m <= wire.DefaultTrust {
		t.Fatalf("%d bytes at the start", m)
	}
	for put := 0; put < n; {
		put += l.Put(data[put:min(n, put+1000)])
		l.Shrink()
		if l.Memory() > 2*put || int(pool.Stats().InUse) > 2*put+put/4+1024 {
			t.Fatalf("%d bytes held, %d in use, for %d", l.Memory(), pool.Stats().InUse, put)
		}
	}
	b := l.Take()
	defer b.Free()
	if !bytes.Equal(b.Bytes(), data) {
		t.Fatal("another message landed")
	}
}
