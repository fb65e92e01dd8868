package tarn_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"
	"testing/iotest"
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

// reader makes an io.Reader of a function.
type reader func([]byte) (int, error)

func (r reader) Read(p []byte) (int, error) { return r(p) }

func TestReadFromSizes(t *testing.T) {
	var c tarn.Chain
	c.SetPool(tarntest.NewPool(t))
	defer c.Free()
	var asked []int
	left := 4 << 20
	n, err := c.ReadFrom(reader(func(p []byte) (int, error) {
		asked = append(asked, len(p))
		k := min(len(p), left)
		if left -= k; k == 0 {
			return 0, io.EOF
		}
		return k, nil
	}))
	if n != 4<<20 || err != nil {
		t.Fatalf("ReadFrom = %d, %v", n, err)
	}
	if asked[0] != 4<<10 || slices.Max(asked) != 256<<10 || len(asked) > 30 {
		t.Errorf("asked for %v", asked)
	}
}

// TestReadFromPacks: a reader that returns small pieces does not take a buffer for each.
func TestReadFromPacks(t *testing.T) {
	p := tarntest.NewPool(t)
	var c tarn.Chain
	c.SetPool(p)
	defer c.Free()
	want := bytes.Repeat([]byte("0123456789"), 10_000)
	if n, err := c.ReadFrom(iotest.OneByteReader(bytes.NewReader(want))); int(n) != len(want) || err != nil {
		t.Fatalf("ReadFrom = %d, %v", n, err)
	}
	if in := p.Stats().InUse; in > int64(len(want)*5/4) {
		t.Errorf("%d bytes keep %d", len(want), in)
	}
	got, err := io.ReadAll(&c)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// TestReadFromRepeatedly: a chain that is read into often, a few bytes each time, keeps little memory.
func TestReadFromRepeatedly(t *testing.T) {
	p := tarntest.NewPool(t)
	var c tarn.Chain
	c.SetPool(p)
	defer c.Free()
	if n, err := c.ReadFrom(bytes.NewReader(nil)); n != 0 || err != nil || c.Residue() != 0 {
		t.Errorf("ReadFrom of nothing = %d, %v, and keeps %d buffers", n, err, c.Residue())
	}
	for range 1000 {
		if _, err := c.ReadFrom(bytes.NewReader([]byte("a few bytes"))); err != nil {
			t.Fatal(err)
		}
		if _, err := c.ReadFrom(bytes.NewReader(nil)); err != nil {
			t.Fatal(err)
		}
	}
	if in := p.Stats().InUse; in > int64(2*c.Len()) {
		t.Errorf("%d bytes keep %d", c.Len(), in)
	}
}

func TestReadFromBadReaders(t *testing.T) {
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		then func([]byte) (int, error) // after "hello"
		want error
		n    int64
	}{
		"nothing for ever":  {func([]byte) (int, error) { return 0, nil }, io.ErrNoProgress, 5},
		"fails":             {func([]byte) (int, error) { return 0, broken }, broken, 5},
		"fails with data":   {func(p []byte) (int, error) { return copy(p, "!"), broken }, broken, 6},
		"ends":              {func([]byte) (int, error) { return 0, io.EOF }, nil, 5},
		"ends with data":    {func(p []byte) (int, error) { return copy(p, "!"), io.EOF }, nil, 6},
		"claims more":       {func(p []byte) (int, error) { return len(p) + 1, nil }, tarn.ErrCount, 5},
		"claims much more":  {func([]byte) (int, error) { return int(^uint(0) >> 1), nil }, tarn.ErrCount, 5},
		"claims a negative": {func([]byte) (int, error) { return -1, nil }, tarn.ErrCount, 5},
		"claims and fails":  {func([]byte) (int, error) { return -1, broken }, tarn.ErrCount, 5},
	} {
		t.Run(name, func(t *testing.T) {
			var c tarn.Chain
			c.SetPool(tarntest.NewPool(t))
			first := true
			n, err := c.ReadFrom(reader(func(p []byte) (int, error) {
				if first {
					first = false
					return copy(p, "hello"), nil
				}
				return tt.then(p)
			}))
			if n != tt.n || !errors.Is(err, tt.want) || c.Len() != int(n) {
				t.Errorf("ReadFrom = %d, %v, of which %d are there; want %d, %v", n, err, c.Len(), tt.n, tt.want)
			}
			got, _ := io.ReadAll(&c)
			if !bytes.HasPrefix(got, []byte("hello")) {
				t.Errorf("%q", got)
			}
		})
	}
}

// TestReadFromPanic leaves what was read, and a chain that works.
func TestReadFromPanic(t *testing.T) {
	var c tarn.Chain
	c.SetPool(tarntest.NewPool(t))
	first := true
	if caught(func() {
		c.ReadFrom(reader(func(p []byte) (int, error) {
			if !first {
				panic("reader")
			}
			first = false
			return copy(p, "hello"), nil
		}))
	}) != "reader" {
		t.Error("the reader's panic did not reach the caller")
	}
	if b, err := c.Next(5); err != nil || string(b.Bytes()) != "hello" {
		t.Errorf("%v", err)
	} else {
		b.Free()
	}
}

func TestReadFromSocket(t *testing.T) {
	client, server := pair(t, "tcp", "127.0.0.1:0")
	p := tarntest.NewPool(t)
	out, want := chainOf(p, 2000, 1000)
	sent := make(chan error, 1)
	go func() {
		_, err := out.WriteTo(client)
		client.(*net.TCPConn).CloseWrite()
		sent <- err
	}()
	var c tarn.Chain
	c.SetPool(p)
	n, err := c.ReadFrom(server)
	if int(n) != len(want) || err != nil || <-sent != nil {
		t.Errorf("ReadFrom = %d, %v", n, err)
	}
	got, err := io.ReadAll(&c)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// TestShrinkChain: small remains of large slabs are copied, slabs that the chain uses well are not.
func TestShrinkChain(t *testing.T) {
	p := tarntest.NewPool(t)
	var c tarn.Chain
	defer c.Free()
	full := p.Get(64 << 10)
	clear(full.Bytes())
	at := &full.Bytes()[0]
	c.Append(p.Copy(bytes.Repeat([]byte("x"), 64<<10)).Narrow(10, 20))
	c.Append(full)
	for range 10 {
		c.Append(p.Copy(bytes.Repeat([]byte("y"), 64<<10)).Narrow(0, 1))
	}
	c.Shrink()
	if held := c.Held(); held > 4*c.Len()+4<<10 || c.Len() != 64<<10+20 {
		t.Errorf("%d bytes hold %d", c.Len(), held)
	}
	views, err := c.Peek(c.Len(), nil)
	if err != nil || len(views) != 3 || &views[1][0] != at {
		t.Errorf("%d views, %v, or the full slab was copied", len(views), err)
	}
	if got := string(views[0]) + string(views[2]); got != "xxxxxxxxxxyyyyyyyyyy" {
		t.Errorf("%q", got)
	}
	var empty tarn.Chain
	empty.Shrink()
}

// TestChainAllocations asserts that a chain and a writer that are used again allocate nothing.
func TestChainAllocations(t *testing.T) {
	p := unchecked(t)
	client, server := pair(t, "tcp", "127.0.0.1:0")
	var c, out tarn.Chain
	c.SetPool(p)
	w := tarn.NewWriter(p)
	views := make([][]byte, 0, 64)
	piece, large, got := make([]byte, 100), make([]byte, 5000), make([]byte, 40*500)
	source := bytes.NewReader(large)
	big := p.Get(32 << 10)
	fill := func(segments int) {
		for range segments {
			c.Append(p.Get(500))
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would empty pools, whose allocations are not to be counted
	for _, tt := range []struct {
		name string
		f    func()
	}{
		{"Append, Discard of 1", func() { fill(1); c.Discard(500) }},
		{"Append, Discard of 40", func() { fill(40); c.Discard(40 * 500) }},
		{"Append of one-byte segments", func() {
			for i := range 200 {
				c.Append(big.Slice(10*i, 10*i+1))
			}
			c.Discard(200)
		}},
		{"Peek", func() {
			fill(40)
			views, _ = c.Peek(c.Len(), views[:0])
			clear(views)
			c.Discard(c.Len())
		}},
		{"CutTo, Discard", func() {
			fill(10)
			c.CutTo(&out, 2750)
			out.Discard(2750)
			c.Discard(c.Len())
		}},
		{"Cut of few segments", func() {
			fill(10)
			cut, _ := c.Cut(1000)
			cut.Free()
			c.Discard(c.Len())
		}},
		{"Cut of everything", func() { fill(2); cut, _ := c.Cut(c.Len()); cut.Free() }},
		{"Next", func() {
			fill(5)
			for _, n := range []int{100, 400, 700} {
				b, _ := c.Next(n)
				b.Free()
			}
			c.Discard(c.Len())
		}},
		{"Read, ReadByte", func() { fill(5); c.Read(large[:777]); c.ReadByte(); c.Discard(c.Len()) }},
		{"Prepend", func() { fill(3); c.PrependBytes(piece[:9]); c.Prepend(p.Get(64)); c.Discard(c.Len()) }},
		{"ReadFrom", func() { source.Reset(large); c.ReadFrom(source); c.Discard(c.Len()) }},
		{"WriteTo a socket", func() { fill(40); c.WriteTo(client); io.ReadFull(server, got) }},
		{"WriteTo a writer", func() { fill(40); c.WriteTo(io.Discard) }},
		{"Writer.Write", func() {
			for range 500 {
				w.Write(piece)
			}
			w.MoveTo(&out)
			out.Free()
		}},
		{"Writer.WriteByte, WriteString", func() {
			for range 50 {
				w.WriteByte('x')
				w.WriteString("yz")
			}
			w.MoveTo(&out)
			out.Free()
		}},
		{"Writer.Take of one segment", func() { w.Write(piece); moved := w.Take(); moved.Free() }},
		{"Writer.Append", func() { w.Write(piece); w.Append(p.Get(5000)); w.Write(piece); w.Free() }},
	} {
		for range 20 {
			tt.f()
		}
		n := testing.AllocsPerRun(200, tt.f)
		if raceEnabled {
			continue // the race detector drops items of every sync.Pool at random
		}
		if n != 0 {
			t.Errorf("%s: %v allocations", tt.name, n)
		}
	}
	big.Free()
}
