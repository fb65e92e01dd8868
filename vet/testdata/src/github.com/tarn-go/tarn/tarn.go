// Package tarn has the names and signatures of the real one, as far as the analyser knows them by
// heart. TestStandIn compares the two.
package tarn

import (
	"context"
	"io"
)

type Allocator interface{ Get(n int) Buffer }

type Pool struct{}

func NewPool(PoolConfig) (*Pool, error)                            { return nil, nil }
func Shared() *Pool                                                { return nil }
func (p *Pool) Get(n int) Buffer                                   { return Buffer{} }
func (p *Pool) Copy(b []byte) Buffer                               { return Buffer{} }
func (p *Pool) Wrap(b []byte, release func([]byte)) Buffer         { return Buffer{} }
func (p *Pool) Acquire(ctx context.Context, n int) (Buffer, error) { return Buffer{}, nil }

type PoolConfig struct{}

type Buffer struct {
	slab *int
	n    int
}

func (b Buffer) Bytes() []byte                   { return nil }
func (b Buffer) Len() int                        { return b.n }
func (b Buffer) IsZero() bool                    { return b.slab == nil }
func (b Buffer) Unique() bool                    { return true }
func (b Buffer) Free()                           {}
func (b Buffer) Ref() Buffer                     { return b }
func (b Buffer) Slice(i, j int) Buffer           { return b }
func (b Buffer) Split(n int) (head, tail Buffer) { return b, b }
func (b Buffer) Narrow(i, j int) Buffer          { return b }
func (b Buffer) Join(next Buffer) (Buffer, bool) { return b, true }
func (b Buffer) GrowTail(n int) (Buffer, bool)   { return b, true }
func (b Buffer) GrowHead(n int) (Buffer, bool)   { return b, true }
func (b Buffer) Clone() Buffer                   { return b }
func (b Buffer) Shrink() Buffer                  { return b }

type Chain struct {
	few [2]Buffer
	n   int
}

func (c *Chain) Append(b Buffer)                            {}
func (c *Chain) Prepend(b Buffer)                           {}
func (c *Chain) PrependBytes(p []byte)                      {}
func (c *Chain) AppendChain(o *Chain)                       {}
func (c *Chain) Len() int                                   { return c.n }
func (c *Chain) Peek(n int, dst [][]byte) ([][]byte, error) { return nil, nil }
func (c *Chain) Discard(n int) (int, error)                 { return 0, nil }
func (c *Chain) Cut(n int) (Chain, error)                   { return Chain{}, nil }
func (c *Chain) CutTo(dst *Chain, n int) error              { return nil }
func (c *Chain) Next(n int) (Buffer, error)                 { return Buffer{}, nil }
func (c *Chain) NextSegment() Buffer                        { return Buffer{} }
func (c *Chain) Ref() Chain                                 { return Chain{} }
func (c *Chain) Read(p []byte) (int, error)                 { return 0, nil }
func (c *Chain) ReadByte() (byte, error)                    { return 0, nil }
func (c *Chain) WriteTo(w io.Writer) (int64, error)         { return 0, nil }
func (c *Chain) ReadFrom(r io.Reader) (int64, error)        { return 0, nil }
func (c *Chain) CopyTo(dst []byte) int                      { return 0 }
func (c *Chain) Free()                                      {}

type Writer struct{ chain Chain }

func NewWriter(a Allocator) *Writer                   { return nil }
func (w *Writer) Write(p []byte) (int, error)         { return 0, nil }
func (w *Writer) WriteString(s string) (int, error)   { return 0, nil }
func (w *Writer) WriteByte(v byte) error              { return nil }
func (w *Writer) ReadFrom(r io.Reader) (int64, error) { return 0, nil }
func (w *Writer) Append(b Buffer)                     {}
func (w *Writer) Take() Chain                         { return Chain{} }
func (w *Writer) MoveTo(dst *Chain)                   {}
func (w *Writer) Len() int                            { return 0 }
func (w *Writer) Free()                               {}
func (w *Writer) Reset(a Allocator)                   {}

type Arena struct{ b Buffer }

func NewArena(p *Pool, chunk int) *Arena { return nil }
func (a *Arena) Get(n int) Buffer        { return Buffer{} }
func (a *Arena) Free()                   {}
