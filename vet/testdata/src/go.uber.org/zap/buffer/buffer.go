// Package buffer stands in for zap's.
package buffer

type Buffer struct {
	bs   []byte
	pool Pool
}

func (b *Buffer) AppendString(s string) {}
func (b *Buffer) Bytes() []byte         { return b.bs }
func (b *Buffer) String() string        { return string(b.bs) }
func (b *Buffer) Len() int              { return len(b.bs) }
func (b *Buffer) Free()                 { b.pool.put(b) }

type Pool struct{}

func NewPool() Pool               { return Pool{} }
func (p Pool) Get() *Buffer       { return nil }
func (p Pool) put(buffer *Buffer) {}
