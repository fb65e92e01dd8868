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

type Field struct {
	Name string
	Type interface{ ID() int }
}

type Column struct {
	field Field
	data  *Chunked
}

func (c *Column) Retain()  {}
func (c *Column) Release() {}
