package wire_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
	"github.com/tarn-go/tarn/wire"
)

// TestWriterMix writes one stream with every method in random order.
func TestWriterMix(t *testing.T) {
	data := pattern(3 << 20)
	forEach(t, func(t *testing.T, a, b net.Conn) {
		pool := tarntest.NewPool(t)
		got := make(chan []byte, 1)
		go func() {
			p, _ := io.ReadAll(b)
			got <- p
		}()
		w := wire.NewWriter(a, pool)
		extra := w.NewBatch()
		rnd := rand.New(rand.NewPCG(6, 7))
		for off := 0; off < len(data); {
			n := min(len(data)-off, 1+rnd.IntN(1<<rnd.IntN(18)))
			p := data[off : off+n]
			switch rnd.IntN(7) {
			case 0:
				w.Write(p)
			case 1:
				n = min(n, wire.MaxPeek)
				copy(w.Space(n), p)
			case 2:
				w.Append(pool.Copy(p))
			case 3:
				w.Borrow(p)
			case 4:
				var c tarn.Chain
				c.Append(pool.Copy(p[:n/2]))
				c.Append(pool.Copy(p[n/2:]))
				w.AppendChain(&c, n)
			case 5:
				if err := w.Flush(); err != nil {
					t.Fatal(err)
				}
				n = 0
			default:
				if err := w.Flush(); err != nil {
					t.Fatal(err)
				}
				extra.Write(p[:n/3])
				extra.Append(pool.Copy(p[n/3:]))
				if sent, err := w.TrySend(extra); err != nil {
					t.Fatal(err)
				} else if sent == wire.Unsent {
					if err := w.Send(extra); err != nil {
						t.Fatal(err)
					}
				}
			}
			off += n
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		w.Release()
		a.Close()
		if !bytes.Equal(<-got, data) {
			t.Fatal("other bytes than were written")
		}
	})
}

// TestManyPieces goes beyond what one system call takes.
func TestManyPieces(t *testing.T) {
	forEach(t, func(t *testing.T, a, b net.Conn) {
		const n, size = 2500, 2<<10 + 4096
		w := wire.NewWriter(a, tarntest.NewPool(t))
		defer w.Release()
		p := pattern(size)
		for range n {
			w.Borrow(p)
		}
		sum := make(chan int, 1)
		go func() {
			got, q := 0, make([]byte, size)
			for {
				m, err := io.ReadFull(b, q)
				got += m
				if err != nil || !bytes.Equal(p, q) {
					break
				}
			}
			sum <- got
		}()
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		a.Close()
		if got := <-sum; got != n*size {
			t.Fatalf("%d bytes of %d came", got, n*size)
		}
	})
}

// TestWriteDeadline: the peer reads one byte and then nothing; one deadline, set while Flush waits, ends the whole flush, and
// Flush leaves it as it was set.
func TestWriteDeadline(t *testing.T) {
	forEach(t, func(t *testing.T, a, b net.Conn) {
		pool := tarntest.NewPool(t)
		w := wire.NewWriter(a, pool)
		defer w.Release()
		mib := pool.Get(1 << 20)
		for range 63 {
			w.Append(mib.Ref())
		}
		w.Append(mib)
		go func() {
			b.Read(make([]byte, 1))
			a.SetWriteDeadline(time.Unix(1, 0))
		}()
		err := w.Flush()
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		if err2 := w.Flush(); err2 != err {
			t.Fatalf("Flush after the error returned %v", err2)
		}
		if _, err := a.Write([]byte{0}); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("a write after the flush returned %v: the deadline is not the one that was set", err)
		}
	})
}

// recording records the lengths of the writes it is given.
type recording struct {
	net.Conn
	lens []int
	all  []byte
}

func (r *recording) Write(p []byte) (int, error) {
	r.lens = append(r.lens, len(p))
	r.all = append(r.all, p...)
	return len(p), nil
}

// TestRecords: what cannot vector is written in whole records.
func TestRecords(t *testing.T) {
	pool := tarntest.NewPool(t)
	rec := &recording{}
	w := wire.NewWriter(rec, pool)
	w.Write(make([]byte, 14))
	w.Append(pool.Get(100_000))
	w.Write(make([]byte, 50))
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	total := 0
	for i, n := range rec.lens {
		total += n
		if i < len(rec.lens)-1 && n%(16<<10) != 0 {
			t.Errorf("write %d has %d bytes", i, n)
		}
	}
	if total != 100_064 || len(rec.lens) != 3 {
		t.Errorf("%d bytes in %d writes", total, len(rec.lens))
	}
}

// TestEmbeddedConn: a type that embeds *net.TCPConn has its own Write called.
func TestEmbeddedConn(t *testing.T) {
	a, b := listenPair("tcp", "127.0.0.1:0")(t)
	_ = b
	own := &countingTCP{TCPConn: a.(*net.TCPConn)}
	w := wire.NewWriter(own, tarntest.NewPool(t))
	w.Borrow(make([]byte, 100_000))
	w.Borrow(make([]byte, 100_000))
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if own.n != 200_000 {
		t.Fatalf("%d bytes passed the wrapper", own.n)
	}
}

type countingTCP struct {
	*net.TCPConn
	n int
}

func (c *countingTCP) Write(p []byte) (int, error) { c.n += len(p); return len(p), nil }

// TestTrySendLeavesTheRest fills the socket and finishes with Send.
func TestTrySendLeavesTheRest(t *testing.T) {
	a, b := listenPair("tcp", "127.0.0.1:0")(t)
	pool := tarntest.NewPool(t)
	w := wire.NewWriter(a, pool)
	defer w.Release()
	data := pattern(1 << 20)
	batch := w.NewBatch()
	for range 32 {
		batch.Append(pool.Copy(data))
	}
	sent, err := w.TrySend(batch)
	if err != nil || sent != wire.Unsent {
		t.Fatalf("32 MiB went at once: %v, %v", sent, err)
	}
	got := make(chan bool, 1)
	go func() {
		p := make([]byte, len(data))
		ok := true
		for range 32 {
			if _, err := io.ReadFull(b, p); err != nil || !bytes.Equal(p, data) {
				ok = false
			}
		}
		got <- ok
	}()
	if err := w.Send(batch); err != nil {
		t.Fatal(err)
	}
	if !<-got {
		t.Fatal("other bytes than were written")
	}
}
