package wire_test

import (
	"net"
	"testing"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/wire"
)

// TestAllocs asserts that neither side allocates in steady state.
func TestAllocs(t *testing.T) {
	if raceEnabled {
		t.Log("allocations are not counted under the race detector")
		return
	}
	forEach(t, func(t *testing.T, a, b net.Conn) {
		switch a.(type) {
		case *net.TCPConn, *net.UnixConn, wrapped:
		default:
			return // net.Pipe and TLS allocate of themselves
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
			wire.PutFrameHeader(w.Space(wire.FrameHeaderLen), 100)
			w.Write(dst[:100])
			w.Append(pool.Get(5000))
			w.Append(pool.Get(20_000))
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			n, err := r.FrameLen(1000)
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
			if err := r.Discard(5050); err != nil {
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
