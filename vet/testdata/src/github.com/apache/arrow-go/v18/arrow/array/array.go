// Package array stands in for arrow-go's.
package array

import "github.com/apache/arrow-go/v18/arrow"

type Int64Builder struct{}

func NewInt64Builder() *Int64Builder          { return nil }
func (b *Int64Builder) Retain()               {}
func (b *Int64Builder) Release()              {}
func (b *Int64Builder) Append(v int64)        {}
func (b *Int64Builder) NewInt64Array() *Int64 { return nil }

type array struct{}

func (a *array) Retain()  {}
func (a *array) Release() {}
func (a *array) Len() int { return 0 }

type Int64 struct{ array }

func (a *Int64) Value(i int) int64     { return 0 }
func (a *Int64) Int64Values() []int64  { return nil }
func (a *Int64) Data() arrow.ArrayData { return nil }

func (b *Int64Builder) NewArray() arrow.Array { return nil }

func NewRecordBatch(cols []arrow.Array, n int64) arrow.RecordBatch { return nil }

type RecordReader interface {
	Retain()
	Release()
	Next() bool
	RecordBatch() arrow.RecordBatch
}
