package smb

import (
	"context"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// Range is a range of bytes of a file.
type Range struct{ Offset, Length int64 }

// ioctl sends a control code for the open file, and passes its output to use, which must not keep it, with the
// status: success, or one of also.
func (h *openFile) ioctl(ctx context.Context, kind opKind, code uint32, input []byte, room int, use func(output []byte, status proto.Status) error, also ...proto.Status) error {
	return h.run(ctx, kind, func(t *tree, id proto.FileID) error {
		cl := t.Call(proto.CommandIoctl)
		cl.Expect, cl.Effect = room, h.effect(kind)
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
			err = use(r.Output, cl.Status)
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
	return f.wrap("sparse", f.h.setSparse(ctx))
}

func (h *openFile) setSparse(ctx context.Context) error {
	err := h.ioctl(ctx, opSetFile, proto.FsctlSetSparse, []byte{1}, 0, nil)
	if err == nil {
		h.sparse.Store(true)
	}
	return err
}

// PunchHole makes n bytes from off read as zeros, and frees their disk space when the file is sparse
// (FSCTL_SET_ZERO_DATA). The file's length does not change.
func (f *File) PunchHole(off, n int64) error {
	if off < 0 || n < 0 || off+n < off {
		return f.wrap("punch", errNegative)
	}
	ctx, cancel := f.h.m.s.bounded(f.ctx)
	defer cancel()
	return f.wrap("punch", f.h.zero(ctx, []Range{{off, n}}))
}

// zeroRange is a segment that the server makes read as zeros.
type zeroRange Range

// start sends the request for the file id.
func (r zeroRange) start(ctx context.Context, t *tree, id proto.FileID, change conn.Effect, policy conn.CreditPolicy) (*conn.Call, error) {
	cl := t.Call(proto.CommandIoctl)
	cl.Effect = change
	req := proto.IoctlRequest{
		Code: proto.FsctlSetZeroData, FileID: id,
		Input: proto.AppendZeroData(nil, proto.Range{Offset: uint64(r.Offset), Length: uint64(r.Length)}),
	}
	if err := t.Start(ctx, cl, &req, policy); err != nil {
		return nil, err
	}
	return cl, nil
}

// finish waits for the request cl, and releases it.
func (zeroRange) finish(ctx context.Context, cl *conn.Call) error {
	if err := cl.Finish(ctx); err != nil {
		return err
	}
	cl.Release()
	return nil
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
	list, err := f.h.allocated(ctx, off, n)
	return list, f.wrap("ranges", err)
}

// leastWindow is the length in bytes that every server can report in one answer: blocks have 512 bytes or more.
const leastWindow = 1 << 20

func (h *openFile) allocated(ctx context.Context, off, n int64) (list []Range, err error) {
	end, window := off+n, n
	for requests := 0; off < end; requests++ {
		stop := off + min(window, end-off)
		got, more, err := h.allocatedOnce(ctx, off, stop-off)
		if hasStatus(err, proto.StatusBufferTooSmall) && stop-off > leastWindow {
			window = (stop - off) / 2 // Samba returns either all ranges or none
			continue
		}
		if err != nil {
			return list, err
		}
		at := off
		for _, r := range got {
			from, to := max(int64(r.Offset), at), min(int64(r.End()), stop)
			if from >= to {
				continue // outside the requested range
			}
			if last := len(list) - 1; last >= 0 && list[last].Offset+list[last].Length == from {
				list[last].Length += to - from
			} else {
				list = append(list, Range{from, to - from})
			}
			at = to
		}
		if max(requests, len(list)) > h.m.s.cfg.Limits.MaxEntries {
			return list, ErrTooMany
		}
		if off = at; !more {
			off = stop
			window *= 2 // not beyond 2^63: it is n, or at most half of it
		}
	}
	return list, nil
}

// allocatedOnce is one request. more is whether the server has more ranges between off and off+n than it sent.
func (h *openFile) allocatedOnce(ctx context.Context, off, n int64) (list []proto.Range, more bool, err error) {
	input := proto.AppendRange(nil, proto.Range{Offset: uint64(off), Length: uint64(n)})
	err = h.ioctl(ctx, opQueryFile, proto.FsctlQueryAllocatedRanges, input, min(rangesRoom, h.maxTransact()), func(output []byte, status proto.Status) (err error) {
		more = status == proto.StatusBufferOverflow
		list, err = proto.DecodeRanges(output)
		if err == nil && more && (len(list) == 0 || int64(list[len(list)-1].End()) <= off) {
			err = conn.ProtocolError("it stated that there are more allocated ranges, and sent none")
		}
		return err
	}, proto.StatusBufferOverflow)
	return list, more, err
}

func (h *openFile) maxTransact() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.t.Conn().Terms().MaxTransact
}
