package smb

import (
	"context"
	"errors"
	"math"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// errHolesUnknown is returned when a file changed while its holes were listed.
var errHolesUnknown = errors.New("smb: the file changed while its holes were listed")

// dataFrom returns what of from, whose description is fi, a copy to h consists of: everything, or everything but the holes. In the
// second case h is marked as sparse afterwards.
func (h *openFile) dataFrom(ctx context.Context, from *openFile, fi *info) ([]Range, error) {
	all := []Range{{0, fi.Size()}}
	if fi.attributes&proto.AttrSparse == 0 {
		return all, nil // servers report no holes of it, Samba not even those that its file system has
	}
	data, err := from.dataRanges(ctx, fi)
	if err == nil && length(data) < fi.Size() {
		if err = h.setSparse(ctx); err == nil {
			return data, nil
		}
	}
	return all, withoutHoles(err)
}

// withoutHoles is err, or nil if it says that holes are not known or not made: with everything copied, the result has the same bytes; and
// if the server cannot copy, that fails, too.
func withoutHoles(err error) error {
	if err == errHolesUnknown || errors.Is(err, ErrTooMany) || errors.As(err, new(*ResponseError)) {
		return nil
	}
	return err
}

// dataRanges are the parts of h that are no holes. fi is the file's description before the call. The list is used only if the file has
// not changed since: if it was truncated and written again meanwhile, the list would lack parts that have been data at all
// times since.
func (h *openFile) dataRanges(ctx context.Context, fi *info) ([]Range, error) {
	list, err := h.allocated(ctx, 0, fi.Size())
	if err != nil {
		return nil, err
	}
	now, err := h.stat(ctx)
	if err != nil {
		return nil, err
	}
	if now.size != fi.size || now.times.LastWrite != fi.times.LastWrite || now.times.Change != fi.times.Change {
		return nil, errHolesUnknown
	}
	return list, nil
}

// roomTaken are the ranges of h that have room on the server's disk, as far as the server reports it.
func (h *openFile) roomTaken(ctx context.Context) ([]Range, error) {
	size := h.length.Load()
	if h.sparse.Load() && size > 0 {
		list, err := h.allocated(ctx, 0, size)
		if err == nil {
			return list, nil
		}
		if err = withoutHoles(err); err != nil {
			return nil, err
		}
	}
	return []Range{{0, size}}, nil
}

// zero makes ranges of h read as zeros, with many requests in flight.
func (h *openFile) zero(ctx context.Context, ranges []Range) error {
	if len(ranges) == 0 {
		return nil
	}
	defer h.changed()
	p := pipeline{segs: make([]segment, min(window, len(ranges))), bound: window}
	defer p.abandon()
	for asked, done := 0, 0; done < len(ranges); {
		for asked < len(ranges) && p.hasRoom() {
			err := p.push(ctx, h, segment{dir: zeroing, n: 1, zero: zeroRange(ranges[asked])})
			if err == conn.ErrNoCredits {
				break
			}
			if err != nil {
				_, err = h.completeAll(ctx, &p, 0, err)
				return err
			}
			asked++
		}
		if _, err := p.pop(ctx, h); err != nil {
			return err
		}
		done++
	}
	return nil
}

// without is what of the ranges a is not in b. Both are in order.
func without(a, b []Range) (rest []Range) {
	for _, r := range a {
		at, end := r.Offset, r.Offset+r.Length
		for len(b) > 0 && b[0].Offset+b[0].Length <= at {
			b = b[1:]
		}
		for _, x := range b {
			if x.Offset >= end {
				break
			}
			if x.Offset > at {
				rest = append(rest, Range{at, x.Offset - at})
			}
			at = x.Offset + x.Length
		}
		if at < end {
			rest = append(rest, Range{at, end - at})
		}
	}
	return rest
}

// before is what of ranges is before end.
func before(ranges []Range, end int64) []Range {
	return without(ranges, []Range{{end, math.MaxInt64 - end}})
}
