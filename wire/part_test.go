package wire_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"

	"github.com/tarn-go/tarn/tarntest"
	"github.com/tarn-go/tarn/wire"
)

// TestInsert sends batches of frames in parts and inserts others meanwhile: each of both arrives in one piece, and both in order.
func TestInsert(t *testing.T) {
	const frames, inserted = 400, 100
	forEach(t, func(t *testing.T, a, b net.Conn) {
		pool := tarntest.NewPool(t)
		rnd := rand.New(rand.NewPCG(1, 2))
		got := make(chan []byte, 1)
		go func() {
			p, _ := io.ReadAll(b)
			got <- p
		}()
		w := wire.NewWriter(a, pool)
		defer w.Release()
		var want [2][]byte // of kind 0, the batch's, and of kind 1, the inserted ones
		// A frame is its kind, three bytes of its length, and so many bytes.
		frame := func(batch *wire.Batch, kind byte, n int) {
			batch.Mark()
			data := pool.Get(n)
			rand.NewChaCha8([32]byte{byte(n), byte(n >> 8)}).Read(data.Bytes())
			head := []byte{kind, byte(n >> 16), byte(n >> 8), byte(n)}
			want[kind] = append(append(want[kind], head...), data.Bytes()...)
			copy(batch.Space(4), head)
			batch.Append(data)
		}
		batch, other := w.NewBatch(), w.NewBatch()
		for range frames / 20 {
			for range 20 {
				frame(batch, 0, 1+rnd.IntN(1<<(1+rnd.IntN(17))))
			}
			for {
				for range rnd.IntN(3) {
					frame(other, 1, 1+rnd.IntN(10_000))
				}
				batch.Insert(other)
				if other.Len() != 0 {
					t.Fatalf("%d bytes are left", other.Len())
				}
				var sent wire.Outcome
				var err error
				if rnd.IntN(3) == 0 {
					sent, err = w.TrySend(batch)
				} else {
					var stop atomic.Bool
					go stop.Store(true) // at any time
					sent, err = w.SendUntil(batch, &stop)
				}
				if err != nil {
					t.Fatal(err)
				}
				if sent == wire.Sent {
					break
				}
			}
		}
		a.Close()
		var have [2][]byte
		for p := <-got; len(p) > 0; {
			if len(p) < 4 || p[0] > 1 {
				t.Fatalf("%d bytes are no frame: %v", len(p), p[:min(len(p), 4)])
			}
			n := 4 + int(p[1])<<16 + int(p[2])<<8 + int(p[3])
			if n > len(p) {
				t.Fatal("a frame that is cut")
			}
			have[p[0]] = append(have[p[0]], p[:n]...)
			p = p[n:]
		}
		for kind := range want {
			if !bytes.Equal(have[kind], want[kind]) {
				t.Errorf("kind %d: other frames than were sent", kind)
			}
		}
	})
}

// stopping is a connection that says after each Write that SendUntil should return.
type stopping struct {
	recording
	stop atomic.Bool
}

func (s *stopping) Write(p []byte) (int, error) {
	s.stop.Store(true)
	return s.recording.Write(p)
}

// TestInsertPlace: without a byte sent, what is inserted comes first; later at the next mark that has not been sent; each after what
// was inserted before it.
func TestInsertPlace(t *testing.T) {
	const piece = 40 << 10
	rec := &stopping{}
	pool := tarntest.NewPool(t)
	w := wire.NewWriter(rec, pool)
	b, o := w.NewBatch(), w.NewBatch()
	fill := func(b *wire.Batch, n int, v byte) {
		p := pool.Get(n)
		for i := range p.Bytes() {
			p.Bytes()[i] = v
		}
		b.Append(p)
	}
	for v := range byte(4) {
		b.Mark()
		fill(b, piece, v)
	}
	insert := func(n int, v byte) {
		fill(o, n, v)
		b.Insert(o)
	}
	insert(1<<10, 10)
	insert(2<<10, 11)
	if sent, err := w.SendUntil(b, &rec.stop); sent != wire.Unsent || err != nil {
		t.Fatal(sent, err)
	}
	insert(3<<10, 12) // 64 KiB are sent: behind the second piece
	insert(4<<10, 13)
	rec.stop.Store(false)
	for sent := wire.Unsent; sent == wire.Unsent; rec.stop.Store(false) {
		var err error
		if sent, err = w.SendUntil(b, &rec.stop); err != nil {
			t.Fatal(err)
		}
	}
	var want []byte
	for _, x := range []struct {
		n int
		v byte
	}{{1 << 10, 10}, {2 << 10, 11}, {piece, 0}, {piece, 1}, {3 << 10, 12}, {4 << 10, 13}, {piece, 2}, {piece, 3}} {
		want = append(want, bytes.Repeat([]byte{x.v}, x.n)...)
	}
	if !bytes.Equal(rec.all, want) {
		t.Errorf("%d bytes in another order", len(rec.all))
	}
}
