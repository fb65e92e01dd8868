package wire_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"runtime/debug"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/tarntest"
	"github.com/tarn-go/tarn/wire"
)

// sent closes a after having sent p, in pieces of random lengths.
func sent(t *testing.T, a net.Conn, p []byte) {
	t.Helper()
	go func() {
		defer a.Close()
		for r := rand.New(rand.NewPCG(1, 1)); len(p) > 0; {
			n := min(1+r.IntN(5000), len(p))
			if _, err := a.Write(p[:n]); err != nil {
				return // the test has closed the other side
			}
			p = p[n:]
		}
	}()
}

// A Reader is what bufio.Reader is to a parser of text: both see the same lines and bytes.
func TestReadSlice(t *testing.T) {
	var text bytes.Buffer
	r := rand.New(rand.NewPCG(2, 2))
	for range 300 {
		text.WriteString(strings.Repeat("x", r.IntN(3000)))
		text.WriteByte('\n')
	}
	text.WriteString("no newline at the end")
	forEach(t, func(t *testing.T, a, b net.Conn) {
		sent(t, a, text.Bytes())
		rd := wire.NewReader(b, tarntest.NewPool(t))
		defer rd.Release()
		want := bufio.NewReader(bytes.NewReader(text.Bytes()))
		for i := 0; ; i++ {
			if i%7 == 0 { // now and then a byte and back
				v, err := rd.ReadByte()
				if err != nil {
					t.Fatal(err)
				}
				if err := rd.UnreadByte(); err != nil {
					t.Fatal(err)
				}
				if p, err := rd.Peek(1); err != nil || p[0] != v {
					t.Fatalf("after UnreadByte of %q: %q, %v", v, p, err)
				}
				if at := rd.IndexByte(v); at != 0 {
					t.Fatalf("IndexByte of the next byte: %d", at)
				}
			}
			line, err := rd.ReadSlice('\n')
			if errors.Is(err, io.ErrUnexpectedEOF) {
				break
			}
			wanted, _ := want.ReadBytes('\n')
			if err != nil || !bytes.Equal(line, wanted) {
				t.Fatalf("line %d: %d bytes, %v; want %d", i, len(line), err, len(wanted))
			}
		}
		if rest, err := io.ReadAll(rd); err != nil || string(rest) != "no newline at the end" {
			t.Errorf("the rest is %q, %v", rest, err)
		}
		if _, err := rd.ReadByte(); err != io.EOF {
			t.Errorf("ReadByte at the end: %v", err)
		}
		if _, err := rd.ReadSlice('\n'); err != io.EOF {
			t.Errorf("ReadSlice at the end: %v", err)
		}
	})
}

func TestReadSliceIsBounded(t *testing.T) {
	a, b := net.Pipe()
	sent(t, a, bytes.Repeat([]byte("x"), 2*wire.MaxPeek))
	rd := wire.NewReader(b, tarntest.NewPool(t))
	defer rd.Release()
	defer b.Close()
	if err := rd.UnreadByte(); !errors.Is(err, wire.ErrUnread) {
		t.Errorf("UnreadByte before anything was read: %v", err)
	}
	if _, err := rd.ReadSlice('\n'); err != bufio.ErrBufferFull {
		t.Errorf("a line beyond MaxPeek: %v", err)
	}
	if rd.Buffered() < wire.MaxPeek {
		t.Errorf("%d bytes buffered: the line was read", rd.Buffered())
	}
}

// MaxPeek is the bound also where the receive buffer is larger.
func TestReadSliceInALargeBuffer(t *testing.T) {
	a, b := net.Pipe()
	go a.Write(append(bytes.Repeat([]byte("x"), wire.MaxPeek), '\n'))
	rd := wire.NewReader(b, tarntest.NewPool(t))
	rd.SetSizes(wire.MaxRead, wire.MaxRead)
	defer rd.Release()
	defer b.Close()
	if _, err := rd.Peek(1); err != nil || rd.Buffered() != wire.MaxPeek+1 {
		t.Fatalf("%d bytes buffered, %v", rd.Buffered(), err)
	}
	if p, err := rd.ReadSlice('\n'); err != bufio.ErrBufferFull {
		t.Errorf("a line beyond MaxPeek, %d bytes buffered: %d bytes, %v", rd.Buffered(), len(p), err)
	}
	if _, err := rd.ReadByte(); err != nil {
		t.Fatal(err)
	}
	if p, err := rd.ReadSlice('\n'); err != nil || len(p) != wire.MaxPeek {
		t.Errorf("a line of MaxPeek: %d bytes, %v", len(p), err)
	}
}

// What goes through io.Copy on both sides arrives unchanged.
func TestCopyBothWays(t *testing.T) {
	payload := make([]byte, 1<<20)
	for i := range payload {
		payload[i] = byte(rand.Uint32())
	}
	forEach(t, func(t *testing.T, a, b net.Conn) {
		pool := tarntest.NewPool(t)
		w, rd := wire.NewWriter(a, pool), wire.NewReader(b, pool)
		defer w.Release()
		defer rd.Release()
		failed := make(chan error, 1)
		go func() {
			defer a.Close()
			w.WriteString("hello")
			w.WriteByte(' ')
			n, err := io.Copy(w, iotest.HalfReader(bytes.NewReader(payload)))
			if err == nil && n != int64(len(payload)) {
				err = io.ErrShortWrite
			}
			failed <- errors.Join(err, w.Flush())
		}()
		var got bytes.Buffer
		n, err := io.Copy(&got, rd)
		if err := errors.Join(err, <-failed); err != nil {
			t.Fatal(err)
		}
		if n != int64(got.Len()) || got.String() != "hello "+string(payload) {
			t.Errorf("%d bytes arrived, %d of them as sent", n, got.Len())
		}
	})
}

// A proxy passes references on.
func TestProxy(t *testing.T) {
	pool := tarntest.NewPool(t)
	payload := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	a, b := net.Pipe()
	c, d := net.Pipe()
	sent(t, a, payload)
	done := make(chan error, 1)
	go func() {
		defer c.Close()
		rd, w := wire.NewReader(b, pool), wire.NewWriter(c, pool)
		defer rd.Release()
		defer w.Release()
		_, err := io.Copy(w, rd)
		done <- err
	}()
	got, err := io.ReadAll(d)
	if err := errors.Join(err, <-done); err != nil || !bytes.Equal(got, payload) {
		t.Errorf("%d of %d bytes, %v", len(got), len(payload), err)
	}
}

// Errors of the other side of a copy leave the rest to be read.
func TestWriteToStopsWhereTheWriterDoes(t *testing.T) {
	pool := tarntest.NewPool(t)
	for name, c := range map[string]struct {
		w    io.Writer
		want error
		took int
	}{
		"short":      {writerFunc(func(p []byte) (int, error) { return 3, nil }), io.ErrShortWrite, 3},
		"failing":    {writerFunc(func(p []byte) (int, error) { return 2, io.ErrClosedPipe }), io.ErrClosedPipe, 2},
		"impossible": {writerFunc(func(p []byte) (int, error) { return len(p) + 1, nil }), tarn.ErrCount, 0},
	} {
		a, b := net.Pipe()
		sent(t, a, []byte("0123456789"))
		rd := wire.NewReader(b, pool)
		if _, err := rd.Peek(10); err != nil {
			t.Fatal(err)
		}
		n, err := rd.WriteTo(c.w)
		if err != c.want || n != int64(c.took) || rd.Buffered() != 10-c.took {
			t.Errorf("%s: %d, %v; %d buffered", name, n, err, rd.Buffered())
		}
		rd.Release()
		b.Close()
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestReadFromBadSources(t *testing.T) {
	pool := tarntest.NewPool(t)
	for name, c := range map[string]struct {
		src  io.Reader
		want error
	}{
		"nothing":    {readerFunc(func([]byte) (int, error) { return 0, nil }), io.ErrNoProgress},
		"failing":    {iotest.ErrReader(io.ErrClosedPipe), io.ErrClosedPipe},
		"impossible": {readerFunc(func(p []byte) (int, error) { return len(p) + 1, nil }), tarn.ErrCount},
		"negative":   {readerFunc(func(p []byte) (int, error) { return -1, nil }), tarn.ErrCount},
	} {
		a, b := net.Pipe()
		w := wire.NewWriter(a, pool)
		if n, err := w.ReadFrom(c.src); err != c.want || n != 0 {
			t.Errorf("%s: %d, %v", name, n, err)
		}
		w.Release()
		a.Close()
		b.Close()
	}
}

func TestPrefixes(t *testing.T) {
	numbers := []uint64{0, 1, 127, 128, 300, 1 << 20, math.MaxUint32, math.MaxUint64}
	forEach(t, func(t *testing.T, a, b net.Conn) {
		pool := tarntest.NewPool(t)
		w, rd := wire.NewWriter(a, pool), wire.NewReader(b, pool)
		defer w.Release()
		defer rd.Release()
		failed := make(chan error, 1)
		go func() {
			defer a.Close()
			for _, v := range numbers {
				w.WriteUvarint(v)
				w.WriteUint32(uint32(v))
			}
			w.WriteUvarint(1001)
			w.WriteUint32(1001)
			w.Write([]byte{0x80}) // the beginning of a number
			failed <- w.Flush()
		}()
		for _, v := range numbers {
			if got, err := rd.ReadUvarint(); err != nil || got != v {
				t.Errorf("%d is read as %d, %v", v, got, err)
			}
			if got, err := rd.ReadUint32(); err != nil || got != uint32(v) {
				t.Errorf("%d is read as %d, %v", uint32(v), got, err)
			}
		}
		if _, err := rd.ReadPrefixUvarint(1000); !errors.Is(err, wire.ErrPrefix) {
			t.Errorf("a prefix above its limit: %v", err)
		}
		if n, err := rd.ReadPrefix32(1001); err != nil || n != 1001 {
			t.Errorf("a prefix at its limit: %d, %v", n, err)
		}
		if _, err := rd.ReadUvarint(); err != io.ErrUnexpectedEOF {
			t.Errorf("half a number: %v", err)
		}
		if err := <-failed; err != nil {
			t.Error(err)
		}
	})
	endless := bytes.Repeat([]byte{0xFF}, 10)
	for _, p := range [][]byte{binary.AppendUvarint(endless, 1), endless} {
		a, b := net.Pipe()
		sent(t, a, p)
		rd := wire.NewReader(b, tarntest.NewPool(t))
		defer rd.Release()
		defer b.Close()
		if _, err := rd.ReadUvarint(); !errors.Is(err, wire.ErrPrefix) {
			t.Errorf("%d bytes of a number of more than 64 bits: %v", len(p), err)
		}
	}
}

// until is an io.Writer that fails after left bytes.
type until struct{ left int }

var errEnough = errors.New("enough")

func (u *until) Write(p []byte) (int, error) {
	if u.left -= len(p); u.left == 0 {
		return len(p), errEnough
	}
	return len(p), nil
}

// io.Copy in either direction allocates nothing in steady state.
func TestCopyAllocatesNothing(t *testing.T) {
	faultnet.NeedsTCP(t, "the relay allocates")
	if raceEnabled {
		t.Log("allocations are not counted under the race detector")
		return
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // what others' pools do at a collection is not counted
	pool, err := tarn.NewPool(tarn.PoolConfig{})
	if err != nil {
		t.Fatal(err)
	}
	payload := make([]byte, 60_000) // less than a socket takes
	a, b := listenPair("tcp", "127.0.0.1:0")(t)
	w, rd := wire.NewWriter(a, pool), wire.NewReader(b, pool)
	defer w.Release()
	defer rd.Release()
	src := bytes.NewReader(payload)
	var from io.Reader = struct{ io.Reader }{src} // without its WriteTo
	var to until
	copyBoth := func() {
		src.Reset(payload)
		if _, err := io.Copy(w, from); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		to.left = len(payload)
		if _, err := io.Copy(&to, rd); err != errEnough {
			t.Fatal(err)
		}
	}
	copyBoth()
	if n := testing.AllocsPerRun(100, copyBoth); n > 0 {
		t.Errorf("%v allocations for a copy in and a copy out", n)
	}
}
