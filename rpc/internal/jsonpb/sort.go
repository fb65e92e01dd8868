package jsonpb

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// run is a part of a message's wire format that has one field.
type run struct{ index, start, end int }

// sorted writes the fields of a message in the order of their declaration. It copies no wire format: each level of nested messages would hold
// its copy.
func (w *writer) sorted(p *plan, wire []byte) bool {
	var few [32]run
	runs := few[:0]
	for at := 0; at < len(wire); {
		num, _, n := protowire.ConsumeField(wire[at:])
		if n < 0 {
			return false
		}
		r := run{-1, at, at + n}
		if f := p.field(num); f != nil {
			r.index = f.bit
		}
		at += n
		if k := len(runs) - 1; k >= 0 && runs[k].index == r.index {
			runs[k].end = r.end
			continue
		}
		runs = append(runs, r)
	}
	slices.SortStableFunc(runs, func(a, b run) int { return cmp.Compare(a.index, b.index) })
	last := -1
	for _, r := range runs {
		var ok bool
		if last, ok = w.members(p, wire[r.start:r.end], last); !ok {
			return false
		}
	}
	return true
}
