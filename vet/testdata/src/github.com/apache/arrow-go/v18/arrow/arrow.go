// Package arrow stands in for arrow-go's.
package arrow

type Array interface {
	Retain()
	Release()
	Len() int
	Data() ArrayData
}

type ArrayData interface {
	Retain()
	Release()
	Len() int
}

type RecordBatch interface {
	Retain()
	Release()
	NumRows() int64
	Column(i int) Array
	Columns() []Array
}

type Chunked struct{}

func (c *Chunked) Retain()           {}
func (c *Chunked) Release()          {}
func (c *Chunked) Chunk(i int) Array { return nil }
