package tarn_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
)

// TestWriterPacks: many small writes go into few buffers, filled to the last byte of their slabs.
func TestWriterPacks(t *testing.T) {
	for _, size := range []int{1, 7, 100, 1000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			p := tarntest.NewPool(t)
			w := tarn.NewWriter(p)
			piece := make([]byte, size)
			const total = 70_000
			for w.Len() < total {
				w.Write(piece)
			}
			c := w.Take()
			defer c.Free()
			if c.Segments() > 9 {
				t.Errorf("%d bytes in %d segments", c.Len(), c.Segments())
			}
			views, err := c.Peek(c.Len(), nil)
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range views[:len(views)-1] {
				if p.ClassSize(len(v)) != len(v) {
					t.Errorf("segment %d has %d bytes in a slab of %d", i, len(v), p.ClassSize(len(v)))
				}
			}
			if in := p.Stats().InUse; in > int64(2*c.Len()) {
				t.Errorf("%d bytes written keep %d", c.Len(), in)
			}
		})
	}
}

func TestWriterLargeWrite(t *testing.T) {
	p := tarntest.NewPool(t)
	w := tarn.NewWriter(p)
	w.WriteString("header")
	w.Write(make([]byte, 300_000))
	c := w.Take()
	defer c.Free()
	if c.Segments() != 2 {
		t.Errorf("%d segments", c.Segments())
	}
	if in := p.Stats().InUse; in > 350_000 {
		t.Errorf("keeps %d bytes", in)
	}
}

// TestWriterLearns: the second message of a size goes into one buffer.
func TestWriterLearns(t *testing.T) {
	w := tarn.NewWriter(tarntest.NewPool(t))
	for i := range 3 {
		for range 90 {
			w.WriteString(strings.Repeat("x", 100))
		}
		c := w.Take()
		if i > 0 && c.Segments() != 1 {
			t.Errorf("message %d has %d segments", i, c.Segments())
		}
		c.Free()
	}
}

// TestWriterAppendKeepsReferences: what is appended by reference is not copied.
func TestWriterAppendKeepsReferences(t *testing.T) {
	p := tarntest.NewPool(t)
	w := tarn.NewWriter(p)
	var want []*byte
	for range 20 {
		w.WriteString("frame header")
		b := p.Get(16 << 10)
		want = append(want, &b.Bytes()[0])
		w.Append(b)
	}
	c := w.Take()
	defer c.Free()
	views, err := c.Peek(c.Len(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range views {
		if len(want) > 0 && &v[0] == want[0] {
			want = want[1:]
		}
	}
	if len(want) > 0 {
		t.Errorf("%d of 20 were copied", len(want))
	}
	if c.Segments() != 40 {
		t.Errorf("%d segments", c.Segments())
	}
}

// TestZeroWriter writes to the shared pool.
func TestZeroWriter(t *testing.T) {
	var w tarn.Writer
	w.WriteString("hello")
	c := w.Take()
	b, err := c.Next(5)
	if err != nil || string(b.Bytes()) != "hello" {
		t.Errorf("%q, %v", b.Bytes(), err)
	}
	if !b.Unique() {
		t.Error("the writer still holds a reference to what it gave out")
	}
	b.Free()
}

// stingy returns fewer bytes than it was asked for.
type stingy struct{}

func (stingy) Get(int) tarn.Buffer { return tarn.Buffer{} }

func TestBrokenAllocator(t *testing.T) {
	if caught(func() { tarn.NewWriter(stingy{}).Write([]byte("x")) }) == nil {
		t.Error("a Write without memory did not panic")
	}
}

// TestWriterForgetsLargeMessages: a small message after a large one does not keep a large slab.
func TestWriterForgetsLargeMessages(t *testing.T) {
	p := tarntest.NewPool(t)
	w := tarn.NewWriter(p)
	w.Write(make([]byte, 60_000))
	large := w.Take()
	large.Free()
	w.WriteString("small")
	c := w.Take()
	defer c.Free()
	if in := p.Stats().InUse; in > 512 {
		t.Errorf("%d bytes keep %d", c.Len(), in)
	}
}

var (
	_ io.WriterTo     = (*tarn.Chain)(nil)
	_ io.ReaderFrom   = (*tarn.Chain)(nil)
	_ io.ByteReader   = (*tarn.Chain)(nil)
	_ io.Reader       = (*tarn.Chain)(nil)
	_ io.ByteWriter   = (*tarn.Writer)(nil)
	_ io.StringWriter = (*tarn.Writer)(nil)
	_ io.ReaderFrom   = (*tarn.Writer)(nil)
)
