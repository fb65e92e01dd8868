// Package arrow has mistakes with Arrow's arrays and records.
package arrow

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

func afterRelease(rec arrow.RecordBatch) int64 {
	rec.Release()
	return rec.NumRows() // want `use after release: rec was given back by RecordBatch.Release`
}

func columnAfterRelease(rec arrow.RecordBatch) int {
	col := rec.Column(0)
	rec.Release()
	return col.Len() // want `use after release: these are bytes of rec`
}

func built() *array.Int64 {
	b := array.NewInt64Builder()
	defer b.Release()
	a := b.NewInt64Array()
	defer a.Release()
	return a // want `escape: a is returned, but it was given back by array.Release`
}

func twice(rec arrow.RecordBatch) {
	defer rec.Release() // want `double release: rec is given back`
	rec.Release()
}

func afterNext(r array.RecordReader) int64 {
	r.Next()
	first := r.RecordBatch()
	r.Next()
	return first.NumRows() // want `use after release: bytes of r are .*, but RecordReader.Next at`
}

func returnsBatch(r array.RecordReader) arrow.RecordBatch {
	defer r.Release()
	r.Next()
	return r.RecordBatch() // want `escape: bytes of r are returned`
}

func right() arrow.RecordBatch {
	b := array.NewInt64Builder()
	defer b.Release()
	b.Append(1)
	a := b.NewInt64Array()
	defer a.Release()
	return array.NewRecordBatch([]arrow.Array{a}, 1)
}

func collected(r array.RecordReader) (list []arrow.RecordBatch) {
	for r.Next() {
		rec := r.RecordBatch()
		rec.Retain()
		list = append(list, rec)
	}
	return list
}

func kept(rec arrow.RecordBatch) arrow.Array {
	defer rec.Release()
	col := rec.Column(0)
	col.Retain()
	return col
}

func retained(rec arrow.RecordBatch, to chan arrow.RecordBatch) int64 {
	rec.Retain()
	to <- rec
	rec.Release()
	return rec.NumRows()
}

func retainedPromoted() int64 {
	b := array.NewInt64Builder()
	defer b.Release()
	a := b.NewInt64Array()
	a.Retain()
	a.Release()
	defer a.Release()
	return a.Value(0)
}

// dataOf returns a part that has a count of its own, and asks for it twice.
func dataOf(b *array.Int64Builder) arrow.ArrayData {
	a := b.NewArray()
	defer a.Release()
	a.Data().Retain()
	return a.Data()
}

var memo = map[int64][]arrow.ArrayData{}

func storedDataOf(b *array.Int64Builder, id int64) arrow.ArrayData {
	a := b.NewArray()
	defer a.Release()
	a.Data().Retain()
	memo[id] = []arrow.ArrayData{a.Data()}
	return a.Data()
}

func columns(n int, fill func(c []arrow.Column, i int) error) error {
	cols := make([]arrow.Column, n)
	defer func() {
		for _, c := range cols {
			c.Release()
		}
	}()
	for i := range n {
		if err := fill(cols, i); err != nil {
			return err
		}
	}
	return nil
}

func releasedAtTheEnd(r array.RecordReader) (n int64) {
	for r.Next() {
		rec := r.RecordBatch()
		rec.Retain()
		defer rec.Release()
		n += rec.NumRows()
	}
	return n
}

func twiceInALoop(r array.RecordReader) {
	for r.Next() {
		rec := r.RecordBatch()
		rec.Retain()
		rec.Release()
		rec.Release() // want `double release: rec was given back`
	}
}

func anotherInTheVariable(a, b arrow.Column) {
	c := a
	c.Release()
	c = b
	c.Release()
}

func twiceInTheVariable(a arrow.Column) {
	c := a
	c.Release()
	c.Release() // want `double release: c was given back`
}
