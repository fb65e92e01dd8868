package smb

import (
	"context"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

// Range is a range of bytes of a file.
type Range struct{ Offset, Length int64 }

// ioctl sends a control code for the open file, and passes its output to use, which must not keep it. It is
// safe to repeat.
func (h *handle) ioctl(ctx context.Context, code uint32, input []byte, room int, use func(output []byte) error, also ...proto.Status) error {
	return h.again(ctx, func(t *tree, id proto.FileID) error {
		cl := t.Call(proto.CommandIoctl)
		cl.Expect, cl.Effect = room, &h.change
		req := proto.IoctlRequest{Code: code, FileID: id, Input: input, Output: uint32(room)}
		if err := t.RoundTrip(ctx, cl, &req, also...); err != nil {
			return err
		}
		defer cl.Release()
		if use == nil {
			return nil
		}
		r, err := proto.DecodeIoctlResponse(cl.Message())
		if err == nil {
			err = use(r.Output)
		}
		if err != nil {
			return t.Malformed(err)
		}
		return nil
	})
}

// SetSparse marks the file as sparse (FSCTL_SET_SPARSE): parts that were not written, or were punched out,
// occupy no space on the server's disk.
func (f *File) SetSparse() error {
	ctx, cancel := f.h.m.s.bounded(f.ctx)
	defer cancel()
	return f.wrap("sparse", f.h.ioctl(ctx, proto.FsctlSetSparse, []byte{1}, 0, nil))
}

// PunchHole makes n bytes from off read as zeros, and frees their disk space when the file is sparse
// (FSCTL_SET_ZERO_DATA). The file's length does not change.
func (f *File) PunchHole(off, n int64) error {
	if off < 0 || n < 0 || off+n < off {
		return f.wrap("punch", errNegative)
	}
	ctx, cancel := f.h.m.s.bounded(f.ctx)
	defer cancel()
	defer f.h.changed()
	input := proto.AppendZeroData(nil, proto.Range{Offset: uint64(off), Length: uint64(n)})
	return f.wrap("punch", f.h.ioctl(ctx, proto.FsctlSetZeroData, input, 0, nil))
}

// rangesRoom is how many bytes of ranges, of 16 each, one answer may have.
const rangesRoom = 64 << 10

// AllocatedRanges returns the ranges between off and off+n that hold data, in order
// (FSCTL_QUERY_ALLOCATED_RANGES). The gaps between them read as zeros.
func (f *File) AllocatedRanges(off, n int64) ([]Range, error) {
	if off < 0 || n < 0 || off+n < off {
		return nil, f.wrap("ranges", errNegative)
	}
	ctx, cancel := f.h.m.s.bounded(f.ctx)
	defer cancel()
	var list []Range
	for end := off + n; off < end; {
		before := off
		room := min(rangesRoom, f.h.maxTransact())
		input := proto.AppendRange(nil, proto.Range{Offset: uint64(off), Length: uint64(end - off)})
		var got []proto.Range
		err := f.h.ioctl(ctx, proto.FsctlQueryAllocatedRanges, input, room, func(output []byte) (err error) {
			got, err = proto.DecodeRanges(output)
			return err
		}, proto.StatusBufferOverflow)
		if err != nil {
			return list, f.wrap("ranges", err)
		}
		for _, r := range got {
			start, stop := max(int64(r.Offset), off), min(int64(r.Offset+r.Length), end)
			if start < stop { // in order, and within the requested range
				list = append(list, Range{start, stop - start})
				off = stop
			}
		}
		if len(got) < room/16 || off == before {
			break
		}
		if len(list) > f.h.m.s.cfg.Limits.MaxEntries {
			return list, f.wrap("ranges", ErrTooMany)
		}
	}
	return list, nil
}

func (h *handle) maxTransact() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.t.Conn().Terms().MaxTransact
}
