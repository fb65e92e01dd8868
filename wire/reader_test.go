package wire_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"testing"
	"testing/iotest"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/internal/guard"
	"github.com/tarn-go/tarn/tarntest"
	"github.com/tarn-go/tarn/wire"
)

// connPair makes two joined connections of one kind.
type connPair struct {
	name string
	make func(t testing.TB) (a, b net.Conn)
}

func listenPair(network, addr string) func(t testing.TB) (net.Conn, net.Conn) {
	return func(t testing.TB) (net.Conn, net.Conn) {
		t.Helper()
		if network == "unix" {
			addr = t.TempDir() + "/s"
		}
		l, err := net.Listen(network, addr)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ch := make(chan net.Conn, 1)
		go func() {
			c, _ := l.Accept()
			ch <- c
		}()
		a, err := net.Dial(network, l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		b := <-ch
		if b == nil {
			t.Fatal("accept failed")
		}
		t.Cleanup(func() { a.Close(); b.Close() })
		return a, b
	}
}

// wrapped hides the type of a connection.
type wrapped struct{ net.Conn }

func pairs() []connPair {
	if faultnet.Chosen() {
		return []connPair{{os.Getenv(faultnet.Variable), joined}}
	}
	tcp := listenPair("tcp", "127.0.0.1:0")
	return []connPair{
		{"tcp", tcp},
		{"unix", listenPair("unix", "")},
		{"wrapped", func(t testing.TB) (net.Conn, net.Conn) {
			a, b := tcp(t)
			return wrapped{a}, wrapped{b}
		}},
		{"pipe", func(t testing.TB) (net.Conn, net.Conn) {
			a, b := net.Pipe()
			t.Cleanup(func() { a.Close(); b.Close() })
			return a, b
		}},
		{"tls", tlsPair},
	}
}

func forEach(t *testing.T, f func(t *testing.T, a, b net.Conn)) {
	for _, p := range pairs() {
		t.Run(p.name, func(t *testing.T) {
			a, b := p.make(t)
			f(t, a, b)
		})
	}
}

func pattern(n int) []byte {
	p := make([]byte, n)
	r := rand.New(rand.NewPCG(1, uint64(n)))
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return p
}

// TestReaderMix reads one stream with every method in random order and compares
// it with what was sent.
func TestReaderMix(t *testing.T) {
	data := pattern(3 << 20)
	forEach(t, func(t *testing.T, a, b net.Conn) {
		pool := tarntest.NewPool(t)
		go func() {
			rnd := rand.New(rand.NewPCG(2, 3))
			for p := data; len(p) > 0; {
				n := min(len(p), 1+rnd.IntN(1<<rnd.IntN(18)))
				if _, err := a.Write(p[:n]); err != nil {
					t.Error(err)
					return
				}
				p = p[n:]
			}
			a.Close()
		}()
		r := wire.NewReader(b, pool)
		defer r.Release()
		rnd := rand.New(rand.NewPCG(4, 5))
		var kept []tarn.Buffer
		var at []int
		for off := 0; off < len(data); {
			n := min(len(data)-off, 1+rnd.IntN(1<<rnd.IntN(18)))
			want := data[off : off+n]
			var got []byte
			switch rnd.IntN(6) {
			case 0:
				n = min(n, wire.MaxPeek)
				p, err := r.Peek(n)
				if err != nil {
					t.Fatal(err)
				}
				got, want = p, want[:n]
				n = 0
			case 1:
				got = make([]byte, n)
				if m, err := r.ReadFull(got); m != n || err != nil {
					t.Fatal(m, err)
				}
			case 2:
				got = make([]byte, n)
				m, err := r.Read(got)
				if err != nil {
					t.Fatal(err)
				}
				got, want, n = got[:m], want[:m], m
			case 3:
				if _, err := r.Discard(n); err != nil {
					t.Fatal(err)
				}
				got = want
			case 4:
				b := r.NextBuffered(n)
				n = b.Len()
				got, want = append([]byte(nil), b.Bytes()...), want[:n]
				b.Free()
			default:
				b, err := r.Next(n)
				if err != nil {
					t.Fatal(err)
				}
				got = b.Bytes()
				kept, at = append(kept, b), append(at, off)
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("other bytes than sent at %d", off)
			}
			off += n
		}
		for i, b := range kept { // what was handed out has not changed since
			if !bytes.Equal(b.Bytes(), data[at[i]:at[i]+b.Len()]) {
				t.Fatalf("the bytes handed out at %d have changed", at[i])
			}
			b.Free()
		}
		if _, err := r.Peek(1); err != io.EOF {
			t.Fatalf("at the end: %v", err)
		}
	})
}

func TestEndWithinAFrame(t *testing.T) {
	for _, c := range []struct {
		name string
		read func(r *wire.Reader) error
	}{
		{"Peek", func(r *wire.Reader) error { _, err := r.Peek(10); return err }},
		{"Next", func(r *wire.Reader) error { _, err := r.Next(10); return err }},
		{"Next large", func(r *wire.Reader) error { _, err := r.Next(1 << 30); return err }},
		{"ReadFull", func(r *wire.Reader) error { _, err := r.ReadFull(make([]byte, 10)); return err }},
		{"ReadFull large", func(r *wire.Reader) error { _, err := r.ReadFull(make([]byte, 1<<20)); return err }},
		{"Discard", func(r *wire.Reader) error { _, err := r.Discard(10); return err }},
	} {
		t.Run(c.name, func(t *testing.T) {
			forEach(t, func(t *testing.T, a, b net.Conn) {
				go func() { a.Write([]byte("12345")); a.Close() }()
				r := wire.NewReader(b, tarntest.NewPool(t))
				defer r.Release()
				if err := c.read(r); err != io.ErrUnexpectedEOF {
					t.Fatalf("got %v", err)
				}
			})
		})
	}
}

func TestReadDeadline(t *testing.T) {
	forEach(t, func(t *testing.T, a, b net.Conn) {
		pool := tarntest.NewPool(t)
		r := wire.NewReader(b, pool)
		defer r.Release()
		b.SetReadDeadline(time.Now().Add(-time.Second))
		if _, err := r.Peek(1); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		if got := pool.Stats().InUseBuffers; got != 0 {
			t.Fatalf("%d buffers held after a deadline", got)
		}
		b.SetReadDeadline(time.Time{})
		go a.Write([]byte("x"))
		if p, err := r.Peek(1); err != nil || p[0] != 'x' {
			t.Fatal(p, err)
		}
	})
}

// TestDeclaredLength declares a gigabyte and sends little.
func TestDeclaredLength(t *testing.T) {
	forEach(t, func(t *testing.T, a, b net.Conn) {
		pool, err := tarn.NewPool(tarn.PoolConfig{})
		if err != nil {
			t.Fatal(err)
		}
		go func() { a.Write(make([]byte, 300_000)); a.Close() }()
		r := wire.NewReader(b, pool)
		defer r.Release()
		if _, err := r.Next(1 << 30); err != io.ErrUnexpectedEOF {
			t.Fatal(err)
		}
		if peak := pool.Stats().Peak; peak > 6*300_000 {
			t.Fatalf("%d bytes taken for 300000 that came", peak)
		}
	})
}

func TestReaderIsAnIOReader(t *testing.T) {
	data := pattern(100_000)
	a, b := net.Pipe()
	go func() { a.Write(data); a.Close() }()
	r := wire.NewReader(b, tarntest.NewPool(t))
	defer r.Release()
	if err := iotest.TestReader(io.LimitReader(r, int64(len(data))), data); err != nil {
		t.Fatal(err)
	}
}

// TestWaitingHoldsNothing: on plain sockets a Reader that waits holds no buffer.
func TestWaitingHoldsNothing(t *testing.T) {
	faultnet.NeedsTCP(t, "for sockets alone")
	for _, p := range pairs()[:2] {
		t.Run(p.name, func(t *testing.T) {
			a, b := p.make(t)
			pool := tarntest.NewPool(t)
			r := wire.NewReader(b, pool)
			defer r.Release()
			got := make(chan error, 1)
			read := make(chan struct{}, 1)
			go func() {
				for range 3 {
					x, err := r.Next(100)
					if err != nil {
						got <- err
						return
					}
					x.Free()
					read <- struct{}{}
				}
				got <- nil
			}()
			for range 3 {
				// The reader tries once and then waits, for which it must free its buffer.
				for deadline := time.Now().Add(5 * time.Second); pool.Stats().InUseBuffers != 0; {
					if time.Now().After(deadline) {
						t.Fatal("a waiting reader holds a buffer")
					}
					runtime.Gosched()
				}
				a.Write(make([]byte, 100))
				<-read
			}
			if err := <-got; err != nil {
				t.Fatal(err)
			}
		})
	}
}

// emptyConn is a connection on which Read returns nothing, without an error, so many times before each piece.
type emptyConn struct {
	net.Conn
	times, left int
}

func (c *emptyConn) Read(p []byte) (int, error) {
	if c.left > 0 {
		c.left--
		return 0, nil
	}
	c.left = c.times
	return c.Conn.Read(p)
}

// TestReadOfNothing: a Read of the connection that returns nothing and no error, as net.Pipe's does for an empty Write, does not end
// the stream unless it does so for ever.
func TestReadOfNothing(t *testing.T) {
	const length = 20_000
	reads := map[string]func(rd *wire.Reader) error{
		"Peek":     func(rd *wire.Reader) error { _, err := rd.Peek(length); return err },
		"ReadFull": func(rd *wire.Reader) error { _, err := rd.ReadFull(make([]byte, length)); return err }, // without the receive buffer
		"Next": func(rd *wire.Reader) error {
			b, err := rd.Next(length)
			b.Free()
			return err
		},
		"Discard": func(rd *wire.Reader) error { _, err := rd.Discard(length); return err },
	}
	for name, read := range reads {
		for times, want := range map[int]error{0: nil, 1: nil, 40: nil, 1 << 30: io.ErrNoProgress} {
			a, b := net.Pipe()
			rd := wire.NewReader(&emptyConn{b, times, times}, tarntest.NewPool(t))
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				for range 10 {
					a.Write(nil)
					a.Write(make([]byte, length/10))
				}
			}()
			if err := read(rd); err != want {
				t.Errorf("%s, %d reads of nothing: %v, want %v", name, times, err, want)
			}
			rd.Release()
			b.Close()
			<-sent
		}
	}
}

// TestKeptViewsFault: on a pool with guard pages, who keeps the bytes of a freed message does not read the message that arrives
// after it, although nothing else of the receive buffer is in use.
func TestKeptViewsFault(t *testing.T) {
	if !guard.Supported {
		t.Skip("no page protection on this platform")
	}
	a, b := listenPair("tcp", "127.0.0.1:0")(t)
	defer a.Close()
	defer b.Close()
	r := wire.NewReader(b, tarntest.NewGuardedPool(t)) // a fault panics
	defer r.Release()
	next := func(sent string, use func([]byte)) {
		t.Helper()
		if _, err := io.WriteString(a, sent); err != nil {
			t.Fatal(err)
		}
		m, err := r.Next(len(sent))
		if err != nil {
			t.Fatal(err)
		}
		defer m.Free()
		if string(m.Bytes()) != sent {
			t.Errorf("%q, not %q", m.Bytes(), sent)
		}
		use(m.Bytes())
	}
	var kept []byte
	next("first", func(b []byte) { kept = b })
	next("other", func([]byte) {})
	defer func() {
		if recover() == nil {
			t.Errorf("what was kept can be read")
		}
	}()
	t.Logf("what was kept reads %q", kept)
}
