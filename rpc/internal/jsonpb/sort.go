package jsonpb

import (
	"cmp"
	"slices"

	"github.com/tarn-go/tarn"
	"google.golang.org/protobuf/encoding/protowire"
)

// run is a part of a message's wire format that has one field.
type run struct{ index, start, end int }

// sort returns a message's wire format with the fields in the order of their declaration: wire itself if it has
// that order, or memory to be freed. The values of a field keep their order.
func (w *writer) sort(p *plan, wire []byte) (sorted []byte, memory tarn.Buffer, ok bool) {
	var few [32]run
	runs := few[:0]
	ascending := true
	for at := 0; at < len(wire); {
		num, _, n := protowire.ConsumeField(wire[at:])
		if n < 0 {
			return nil, tarn.Buffer{}, false
		}
		r := run{-1, at, at + n}
		if f := p.field(num); f != nil {
			r.index = f.bit
		}
		at += n
		k := len(runs) - 1
		if k >= 0 && runs[k].index == r.index {
			runs[k].end = r.end
			continue
		}
		ascending = ascending && (k < 0 || runs[k].index < r.index)
		runs = append(runs, r)
	}
	if ascending {
		return wire, tarn.Buffer{}, true
	}
	slices.SortStableFunc(runs, func(a, b run) int { return cmp.Compare(a.index, b.index) })
	memory = w.pool.Get(len(wire))
	sorted = memory.Bytes()[:0]
	for _, r := range runs {
		sorted = append(sorted, wire[r.start:r.end]...)
	}
	return sorted, memory, true
}
