package vet

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/adapt"
	"golang.org/x/net/http2"
	"google.golang.org/grpc/mem"
	"gvisor.dev/gvisor/pkg/buffer"
)

// The functions of this file are correct, and use Tarn together with APIs that have methods of the same names.

// counted is the interface of grpc's reference-counted buffers.
type counted interface {
	ReadOnlyData() []byte
	Len() int
	Ref()
	Free()
	Slice(i, j int) counted
}

// message is counted, and its bytes are Tarn's.
type message struct {
	b    tarn.Buffer
	refs atomic.Int32
}

var _ counted = (*message)(nil)

// newMessage takes ownership of b.
func newMessage(b tarn.Buffer) *message {
	m := &message{b: b}
	m.refs.Store(1)
	return m
}

func (m *message) ReadOnlyData() []byte { return m.b.Bytes() }
func (m *message) Len() int             { return m.b.Len() }
func (m *message) Ref()                 { m.refs.Add(1) }

// Slice returns a reference to some of the bytes.
func (m *message) Slice(i, j int) counted { return newMessage(m.b.Slice(i, j)) }

// Free ends one of the references.
func (m *message) Free() {
	if m.refs.Add(-1) == 0 {
		m.b.Free()
	}
}

// flatten reads a message of grpc's into a Buffer to be freed.
func flatten(p *tarn.Pool, s mem.BufferSlice) tarn.Buffer {
	defer s.Free()
	b := p.Get(s.Len())
	s.CopyTo(b.Bytes())
	return b
}

// OfGRPC reads with a pool of grpc's that is Tarn's.
func OfGRPC(p *tarn.Pool, src io.Reader) (n int, err error) {
	pool := adapt.GRPC(p)
	data, err := mem.ReadAll(src, pool)
	if err != nil {
		data.Free()
		return 0, err
	}
	data.Ref()
	defer data.Free()
	for _, piece := range data {
		n += piece.Len()
	}
	b := flatten(p, data)
	defer b.Free()
	return n + b.Len(), nil
}

// TwoKinds has references of both.
func TwoKinds(p *tarn.Pool, s mem.BufferSlice) (mem.BufferSlice, int) {
	head := newMessage(p.Copy([]byte("head")))
	defer head.Free()
	part := head.Slice(0, 2)
	defer part.Free()
	out := mem.BufferSlice{mem.Copy(head.ReadOnlyData(), mem.DefaultBufferPool())}
	for _, piece := range s {
		piece.Ref()
		out = append(out, piece)
	}
	return out, part.Len()
}

// OfArrow builds an array in memory of Tarn's.
func OfArrow(p *tarn.Pool) int64 {
	alloc := adapt.Arrow(p)
	var _ memory.Allocator = alloc
	build := array.NewInt64Builder(alloc)
	defer build.Release()
	build.AppendValues([]int64{1, 2, 3}, nil)
	list := build.NewInt64Array()
	list.Retain()
	list.Release()
	defer list.Release()
	return list.Value(0)
}

// OfGVisor copies into a view of gVisor's.
func OfGVisor(p *tarn.Pool, src io.Reader) (int, error) {
	b := p.Get(100)
	n, err := io.ReadFull(src, b.Bytes())
	if err != nil {
		b.Free()
		return 0, err
	}
	view := buffer.NewViewWithData(b.Bytes())
	b.Free() // the view has a copy
	clone := view.Clone()
	view.Release()
	pile := buffer.MakeWithView(clone)
	defer pile.Release()
	return n + int(pile.Size()), nil
}

// OfHTTP2 returns the content of a DATA frame, to be freed.
func OfHTTP2(p *tarn.Pool, f *http2.Framer) (tarn.Buffer, error) {
	frame, err := f.ReadFrame()
	if err != nil {
		return tarn.Buffer{}, err
	}
	data, ok := frame.(*http2.DataFrame)
	if !ok {
		return tarn.Buffer{}, errors.New("not DATA")
	}
	return p.Copy(data.Data()), nil
}

// lookalike counts references with methods named like Tarn's, and is another type.
type lookalike struct{}

func (l lookalike) Ref() lookalike                     { return l }
func (l lookalike) Slice(i, j int) lookalike           { return l }
func (l lookalike) Split(n int) (lookalike, lookalike) { return l, l }
func (l lookalike) Bytes() []byte                      { return nil }
func (l lookalike) Free()                              {}

// NotTarns frees a value that is not Tarn's more than once.
func NotTarns(ctx context.Context, p *tarn.Pool, l lookalike) ([]byte, error) {
	b, err := p.Acquire(ctx, 10)
	if err != nil {
		return nil, err
	}
	defer b.Free()
	l.Free()
	l.Free()
	l.Ref()
	head, _ := l.Split(copy(l.Bytes(), b.Bytes()))
	return head.Bytes(), nil
}
