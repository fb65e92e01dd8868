package tarn_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
)

// chainOf is n segments of the given size that no join or packing makes fewer, and their bytes.
func chainOf(pool *tarn.Pool, n, size int) (*tarn.Chain, []byte) {
	c := new(tarn.Chain)
	var all []byte
	for i := range n {
		b := pool.Get(size)
		p := b.Bytes()
		for k := range p {
			p[k] = byte(i + k)
		}
		all = b.AppendTo(all)
		c.Append(b)
	}
	return c, all
}

// pair is the two ends of a connection.
func pair(t *testing.T, network, address string) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err = net.Dial(network, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		server.Close()
	})
	return client, server
}

// receive reads n bytes in the background.
func receive(conn net.Conn, n int) <-chan []byte {
	done := make(chan []byte, 1)
	go func() {
		p := make([]byte, n)
		k, _ := io.ReadFull(conn, p) // what is missing shows in the comparison
		done <- p[:k]
	}()
	return done
}

func TestWriteToSocket(t *testing.T) {
	for _, at := range []struct{ network, address string }{
		{"tcp", "127.0.0.1:0"},
		{"unix", filepath.Join(t.TempDir(), "s")},
	} {
		t.Run(at.network, func(t *testing.T) {
			client, server := pair(t, at.network, at.address)
			p := tarntest.NewPool(t)
			for _, segments := range []int{1, 2, 3, 1024, 1025, 5000} {
				c, want := chainOf(p, segments, 320)
				if c.Segments() != segments {
					t.Fatalf("%d segments, want %d", c.Segments(), segments)
				}
				got := receive(server, len(want))
				if n, err := c.WriteTo(client); n != int64(len(want)) || err != nil {
					t.Fatalf("WriteTo of %d segments = %d, %v", segments, n, err)
				}
				if !bytes.Equal(<-got, want) {
					t.Errorf("%d segments came out differently", segments)
				}
				if c.Len() != 0 || c.Residue() != 0 {
					t.Errorf("%d bytes and %d references are left", c.Len(), c.Residue())
				}
			}
		})
	}
}

// A peer stops reading: the deadline ends the write, the unwritten bytes stay, and a later write continues
// with them.
func TestWriteToDeadline(t *testing.T) {
	client, server := pair(t, "tcp", "127.0.0.1:0")
	c, want := chainOf(tarntest.NewPool(t), 3000, 8<<10)
	client.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
	n, err := c.WriteTo(client)
	if !errors.Is(err, os.ErrDeadlineExceeded) || n == int64(len(want)) {
		t.Fatalf("WriteTo to a peer that does not read = %d, %v", n, err)
	}
	if int(n)+c.Len() != len(want) {
		t.Errorf("%d bytes written and %d left of %d", n, c.Len(), len(want))
	}
	if c.Residue() != 0 {
		t.Errorf("%d views are kept", c.Residue())
	}
	if m, err := c.WriteTo(client); m != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("WriteTo after the deadline = %d, %v", m, err)
	}
	got := receive(server, len(want))
	client.SetWriteDeadline(time.Time{})
	m, err := c.WriteTo(client)
	if err != nil || int(n+m) != len(want) || !bytes.Equal(<-got, want) {
		t.Errorf("the rest: %d, %v, or not the bytes", m, err)
	}
}

// TestWriteToClosed writes to a connection whose peer is gone.
func TestWriteToClosed(t *testing.T) {
	client, _ := pair(t, "tcp", "127.0.0.1:0")
	client.Close()
	c, want := chainOf(tarntest.NewPool(t), 5, 1000)
	if n, err := c.WriteTo(client); n != 0 || !errors.Is(err, net.ErrClosed) || c.Len() != len(want) || c.Residue() != 0 {
		t.Errorf("WriteTo = %d, %v; %d bytes left of %d, %d views kept", n, err, c.Len(), len(want), c.Residue())
	}
	c.Free()
}

// writes accepts what limit allows of each Write, and records the lengths.
type writes struct {
	bytes.Buffer
	lengths []int
	take    func(p []byte) (int, error)
}

func (w *writes) Write(p []byte) (int, error) {
	w.lengths = append(w.lengths, len(p))
	n, err := w.take(p)
	w.Buffer.Write(p[:max(0, min(n, len(p)))])
	return n, err
}

func takeAll(p []byte) (int, error) { return len(p), nil }

// wrapped has a method set with which net.Buffers could bypass its Write.
type wrapped struct {
	*net.TCPConn
	writes
}

func (w *wrapped) Write(p []byte) (int, error) { return w.writes.Write(p) }

func TestWriteToCoalesces(t *testing.T) {
	p := tarntest.NewPool(t)
	c, want := chainOf(p, 1000, 100)
	big, more := chainOf(p, 3, 40_000)
	c.AppendChain(big)
	want = append(want, more...)
	w := wrapped{writes: writes{take: takeAll}}
	if n, err := c.WriteTo(&w); int(n) != len(want) || err != nil || !bytes.Equal(w.Bytes(), want) {
		t.Errorf("WriteTo = %d, %v, or not the bytes", n, err)
	}
	if n := len(w.lengths); n > 100_000/(16<<10)+1+3 {
		t.Errorf("%d Writes: %v", n, w.lengths)
	}
	if last := w.lengths[len(w.lengths)-1]; last != 40_000 {
		t.Errorf("the last large segment was written in %d bytes", last)
	}
}

func TestWriteToBadWriters(t *testing.T) {
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		take func([]byte) (int, error)
		want error
		n    int64
	}{
		"short":             {func(p []byte) (int, error) { return min(len(p), 5), nil }, io.ErrShortWrite, 5},
		"nothing":           {func([]byte) (int, error) { return 0, nil }, io.ErrShortWrite, 0},
		"fails":             {func([]byte) (int, error) { return 0, broken }, broken, 0},
		"fails on the way":  {func(p []byte) (int, error) { return len(p) / 2, broken }, broken, 150},
		"fails at the end":  {func(p []byte) (int, error) { return len(p), broken }, broken, 300},
		"claims more":       {func(p []byte) (int, error) { return len(p) + 1, nil }, tarn.ErrCount, 0},
		"claims a negative": {func([]byte) (int, error) { return -1, nil }, tarn.ErrCount, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c, want := chainOf(tarntest.NewPool(t), 3, 100)
			n, err := c.WriteTo(&writes{take: tt.take})
			if n != tt.n || !errors.Is(err, tt.want) {
				t.Errorf("WriteTo = %d, %v; want %d, %v", n, err, tt.n, tt.want)
			}
			rest := writes{take: takeAll}
			if _, err := c.WriteTo(&rest); err != nil || !bytes.Equal(rest.Bytes(), want[n:]) {
				t.Errorf("the bytes left in the chain are not those that were not written (%v)", err)
			}
		})
	}
}

// TestWriteToPanic frees the scratch memory and keeps the bytes when a writer panics.
func TestWriteToPanic(t *testing.T) {
	c, want := chainOf(tarntest.NewPool(t), 3, 100)
	if caught(func() { c.WriteTo(&writes{take: func([]byte) (int, error) { panic("writer") }}) }) != "writer" {
		t.Error("the writer's panic did not reach the caller")
	}
	if c.Len() != len(want) {
		t.Errorf("%d bytes left of %d", c.Len(), len(want))
	}
	c.Free()
}
