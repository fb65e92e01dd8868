package smb

import (
	"context"
	"errors"
	"io"
	"math"
)

// ReadRangesFrom writes what r has in the ranges to the same places of the file, with requests in flight while r is read, as
// [File.ReadFrom] does. The ranges must be in order. r is read in order, too. When r ends before the last range does, the error is
// io.ErrUnexpectedEOF. The result counts the acknowledged bytes, which are those of the first ranges; behind them, bytes within
// Limits.Pipeline may have been written. The position is then behind the last acknowledged byte. Not for files opened with os.O_APPEND.
func (f *File) ReadRangesFrom(r io.ReaderAt, ranges []Range) (int64, error) {
	if err := checkRanges(ranges); err != nil {
		return 0, f.wrap("write", err)
	}
	if f.h.append {
		return 0, f.wrap("write", errAppend)
	}
	n, err := f.readFrom(func(int64) []Range { return ranges }, r.ReadAt)
	if err == nil && n < length(ranges) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// WriteRangesTo writes what the file has in the ranges to the same places of w, with requests in flight ahead of w, as
// [File.WriteTo] does. The ranges must be in order. w is written to in order, too, with receive buffers, which it must not keep or
// change. When the file ends before the last range does, the error is io.ErrUnexpectedEOF. The result counts the bytes that w has
// got, which are those of the first ranges. The file's position does not change.
func (f *File) WriteRangesTo(w io.WriterAt, ranges []Range) (int64, error) {
	h := f.h
	if h.isDir {
		return 0, f.wrap("read", errIsDirectory)
	}
	if err := checkRanges(ranges); err != nil {
		return 0, f.wrap("read", err)
	}
	if h.ended.Load() {
		return 0, f.wrap("read", ErrClosed)
	}
	ctx, cancel := h.m.s.bounded(f.ctx)
	defer cancel()
	n, err := h.writeRanges(ctx, w, ranges)
	var sink *sinkError
	switch {
	case err == io.EOF:
		return n, io.ErrUnexpectedEOF
	case errors.As(err, &sink):
		return n, sink.err
	}
	return n, f.wrap("read", err)
}

func (h *handle) writeRanges(ctx context.Context, w io.WriterAt, ranges []Range) (total int64, err error) {
	s := h.m.s
	p := pipeline{segs: make([]segment, window), bound: min(s.cfg.Limits.Pipeline, maxAhead)}
	defer func() {
		s.streams.unreserve(p.inFlight)
		p.abandon()
	}()
	left := unmoved{ranges: ranges}
	for {
		for p.hasRoom() {
			off, n := left.next(streamSize)
			if n == 0 {
				break
			}
			if !s.streams.reserve(n, s.cfg.Limits.ReadAhead) {
				if !p.empty() {
					break
				}
				s.streams.bytes.Add(int64(n)) // one read at a time needs no budget
			}
			if err := p.push(ctx, &h.openFile, segment{dir: reading, off: off, n: n}); err != nil {
				s.streams.unreserve(n)
				if p.empty() {
					return total, err
				}
				break // what is in flight comes first
			}
			left.moved(n)
		}
		if p.empty() {
			return total, nil
		}
		n, err := h.writeOldest(ctx, &p, w)
		total += int64(n)
		if err != nil {
			return total, err
		}
	}
}

// writeOldest completes the oldest read of p and writes its bytes to w. They are dropped even if w panics.
func (h *handle) writeOldest(ctx context.Context, p *pipeline, w io.WriterAt) (n int, err error) {
	seg, err := p.pop(ctx, &h.openFile)
	defer func() {
		h.m.s.streams.unreserve(seg.n)
		seg.abandon()
	}()
	if seg.done > 0 {
		var werr error
		n, werr = w.WriteAt(seg.content.data[:seg.done], seg.off)
		if werr = sinkErr(n, seg.done, werr); werr != nil {
			return n, werr
		}
	}
	return n, err
}

// unmoved is what of ranges has yet to be transferred.
type unmoved struct {
	ranges []Range
	done   int64 // bytes of the first range
}

// next is what comes next, of at most size bytes. n is 0 when nothing is left.
func (u *unmoved) next(size int) (off int64, n int) {
	for len(u.ranges) > 0 && u.done == u.ranges[0].Length {
		u.ranges, u.done = u.ranges[1:], 0
	}
	if len(u.ranges) == 0 {
		return 0, 0
	}
	r := u.ranges[0]
	return r.Offset + u.done, int(min(r.Length-u.done, int64(size)))
}

// moved takes off n bytes of those that next returned.
func (u *unmoved) moved(n int) { u.done += int64(n) }

var errRanges = errors.New("the ranges are not in order")

// checkRanges refuses ranges that are negative, overlap or are not in order.
func checkRanges(ranges []Range) error {
	end := int64(0)
	for _, r := range ranges {
		if r.Offset < 0 || r.Length < 0 || r.Offset > math.MaxInt64-r.Length {
			return errNegative
		}
		if r.Offset < end {
			return errRanges
		}
		end = r.Offset + r.Length
	}
	return nil
}

func length(ranges []Range) (n int64) {
	for _, r := range ranges {
		n += r.Length
	}
	return n
}
