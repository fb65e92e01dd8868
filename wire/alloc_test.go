package wire_test

import (
	"net"
	"runtime/debug"
	"testing"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/wire"
)

// TestAllocs asserts that neither side allocates in steady state.
func TestAllocs(t *testing.T) {
	faultnet.NeedsTCP(t, "the relay allocates")
	if raceEnabled {
		t.Log("allocations are not counted under the race detector")
		return
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would empty pools, whose allocations are not to be counted
	forEach(t, func(t *testing.T, a, b net.Conn) {
		switch a.(type) {
		case *net.TCPConn, *net.UnixConn, wrapped:
		default:
			return // net.Pipe and TLS allocate themselves
		}
		pool, err := tarn.NewPool(tarn.PoolConfig{})
		if err != nil {
			t.Fatal(err)
		}
		w, r := wire.NewWriter(a, pool), wire.NewReader(b, pool)
		defer w.Release()
		defer r.Release()
		batch := w.NewBatch()
		dst := make([]byte, 20_000)
		exchange := func() {
			putPrefix(w.Space(prefixLen), 100)
			w.Write(dst[:100])
			w.Append(pool.Get(5000))
			w.Append(pool.Get(20_000))
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			n, err := readPrefix(r, 1000)
			if err != nil {
				t.Fatal(err)
			}
			f, err := r.Next(n)
			if err != nil {
				t.Fatal(err)
			}
			f.Free()
			if f, err = r.Next(5000); err != nil {
				t.Fatal(err)
			}
			f.Free()
			if _, err := r.ReadFull(dst); err != nil {
				t.Fatal(err)
			}
			batch.Write(dst[:50])
			batch.Append(pool.Get(5000))
			if sent, err := w.TrySend(batch); err != nil {
				t.Fatal(err)
			} else if sent == wire.Unsent {
				w.Send(batch)
			}
			if _, err := r.Discard(5050); err != nil {
				t.Fatal(err)
			}
		}
		for range 50 {
			exchange()
		}
		if n := testing.AllocsPerRun(200, exchange); n >= 0.5 {
			t.Errorf("%v allocations an exchange", n)
		}
	})
}

// TestAppendChainAllocs: a chain of many segments is moved one by one, with no
// list of them made.
func TestAppendChainAllocs(t *testing.T) {
	faultnet.NeedsTCP(t, "the relay allocates")
	if raceEnabled {
		t.Log("allocations are not counted under the race detector")
		return
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would empty the pool of its 200 slabs
	pool, err := tarn.NewPool(tarn.PoolConfig{})
	if err != nil {
		t.Fatal(err)
	}
	a, _ := tlsPair(t)
	w := wire.NewWriter(a, pool)
	defer w.Release()
	batch := w.NewBatch()
	var c tarn.Chain
	defer c.Free()
	fill := func() {
		for range 200 {
			c.Append(pool.Get(1000))
		}
	}
	move := func() {
		fill()
		batch.AppendChain(&c, 150_500)
		batch.AppendChain(&c, 49_500)
		if c.Len() != 0 || batch.Len() != 200_000 {
			t.Fatalf("%d left, %d moved", c.Len(), batch.Len())
		}
		batch.Clear()
	}
	for range 20 {
		move()
	}
	chain := testing.AllocsPerRun(50, func() { fill(); c.Free() })
	if n := testing.AllocsPerRun(50, move); n > chain {
		t.Errorf("%v allocations, of which the chain's own are %v", n, chain)
	}
}
