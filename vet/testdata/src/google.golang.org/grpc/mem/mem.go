// Package mem stands in for grpc-go's.
package mem

type BufferPool interface {
	Get(length int) *[]byte
	Put(*[]byte)
}

type Buffer interface {
	ReadOnlyData() []byte
	Ref()
	Free()
	Len() int
}

type BufferSlice []Buffer

func (s BufferSlice) Len() int            { return len(s) }
func (s BufferSlice) Ref()                {}
func (s BufferSlice) Free()               {}
func (s BufferSlice) Materialize() []byte { return nil }
func (s BufferSlice) Reader() *Reader     { return nil }
func (s BufferSlice) MaterializeToBuffer(pool BufferPool) Buffer {
	return nil
}

type Reader struct{}

func (r *Reader) Read(b []byte) (int, error) { return 0, nil }
func (r *Reader) Close() error               { return nil }

func Copy(data []byte, pool BufferPool) Buffer           { return nil }
func NewBuffer(data *[]byte, pool BufferPool) Buffer     { return nil }
func SplitUnsafe(buf Buffer, n int) (left, right Buffer) { return nil, nil }
func DefaultBufferPool() BufferPool                      { return nil }
