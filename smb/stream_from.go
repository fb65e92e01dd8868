package smb

import (
	"context"
	"errors"
	"io"
	"math"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/smb/internal/conn"
)

// ReadFrom reads r to its end and writes at the file's position, as io.ReaderFrom, with requests in flight
// while r is read. The result counts the acknowledged bytes; on error more may have been read from r. The
// file's context is checked between two reads of r.
func (f *File) ReadFrom(r io.Reader) (int64, error) {
	rest := func(off int64) []Range { return []Range{{off, math.MaxInt64 - off}} }
	return f.readFrom(rest, func(p []byte, _ int64) (int, error) { return io.ReadFull(r, p) })
}

// readFrom writes what read returns for the ranges that rangesAt gives for the position. It ends where read returns less than it is
// asked for.
func (f *File) readFrom(rangesAt func(off int64) []Range, read func(p []byte, off int64) (int, error)) (int64, error) {
	h := f.h
	ctx, cancel := h.m.s.bounded(f.ctx)
	defer cancel()
	if err := h.lockPosition(ctx); err != nil {
		return 0, f.wrap("write", err)
	}
	defer h.unlockPosition()
	h.discardReadAhead()
	defer h.changed()
	var source *sinkError
	n, err := h.readFrom(ctx, rangesAt(h.off), read)
	if errors.As(err, &source) {
		return n, source.err
	}
	return n, f.wrap("write", err)
}

func (h *handle) readFrom(ctx context.Context, ranges []Range, read func(p []byte, off int64) (int, error)) (total int64, err error) {
	var b budget
	t, _, err := h.ready(ctx, &b)
	if err != nil {
		return 0, err
	}
	// A segment is one request, so that requests are sent in the order of the file: impacket's server drops what is written behind the end.
	bound, size := h.m.s.cfg.Limits.Pipeline, min(streamSize, t.WriteSize(streamSize))
	p := pipeline{segs: make([]segment, max(1, min(window, bound/size))), bound: bound, budget: b}
	defer p.abandon()
	completeOldest := func() error {
		s, err := p.pop(ctx, &h.openFile)
		s.content.buf.Free()
		total += int64(s.done)
		h.off = s.off + int64(s.done)
		h.grown(h.off)
		return err
	}
	source := unmoved{ranges: ranges}
	var rerr error
	for rerr == nil {
		if ctx.Err() != nil {
			return total, conn.ContextError(ctx)
		}
		off, want := source.next(size)
		if want == 0 {
			break
		}
		var buf tarn.Buffer
		var n int
		buf, n, rerr = h.readSource(read, want, off)
		if n == 0 {
			buf.Free()
		} else if err := h.send(ctx, &p, buf, off, &total, completeOldest); err != nil {
			return total, err
		}
		source.moved(n)
	}
	for !p.empty() {
		if err := completeOldest(); err != nil {
			return total, err
		}
	}
	if rerr == nil || rerr == io.EOF || rerr == io.ErrUnexpectedEOF {
		return total, nil
	}
	return total, &sinkError{rerr}
}

// readSource reads up to want bytes with read, into a buffer that has as many as were read, or is empty. The caller frees it; if read
// panics, or returns a number that is out of range, which panics, too, readSource does.
func (h *handle) readSource(read func(p []byte, off int64) (int, error), want int, off int64) (tarn.Buffer, int, error) {
	buf := h.m.s.cfg.Pool.Get(want)
	handedOver := false
	defer func() {
		if !handedOver {
			buf.Free()
		}
	}()
	n, err := read(buf.Bytes(), off)
	if n == want && err == io.EOF {
		err = nil // an io.ReaderAt may return it with its last bytes
	}
	filled := buf.Narrow(0, n)
	handedOver = true
	return filled, n, err
}

// send writes buf at off, in flight if possible, or at the end of a file opened with os.O_APPEND. It takes
// ownership of buf.
func (h *handle) send(ctx context.Context, p *pipeline, buf tarn.Buffer, off int64, total *int64, completeOldest func() error) error {
	if h.append {
		defer buf.Free()
		n, err := h.appendAll(ctx, buf.Bytes())
		*total += int64(n)
		return err
	}
	for {
		err := conn.ErrNoCredits
		if p.hasRoom() && p.near(off+int64(buf.Len())) {
			err = p.push(ctx, &h.openFile, segment{dir: writing, off: off, n: buf.Len(), content: content{buf.Bytes(), buf}})
		}
		if err == conn.ErrNoCredits {
			err = completeOldest()
			if err == nil {
				continue
			}
		}
		if err != nil {
			buf.Free()
		}
		return err
	}
}

// appendAll writes p at the current end of the file, and moves the position behind it, as O_APPEND does on a local file. When the
// server does not append by itself (it does when the handle has no other right), two concurrent writers may overwrite each other. The
// requests follow one another: a server that appends carries out those in flight in any order.
func (h *handle) appendAll(ctx context.Context, p []byte) (done int, err error) {
	end, err := h.size(ctx)
	if err != nil {
		return 0, err
	}
	defer func() {
		if done > 0 {
			h.off = end + int64(done)
			h.grown(h.off)
		}
	}()
	s := segment{dir: appending, off: end, n: len(p), content: content{data: p}}
	if s.n == 0 {
		return 0, nil
	}
	var b budget
	if err = h.issue(ctx, &b, &s, conn.WaitForCredits); err == nil {
		err = h.complete(ctx, &b, &s)
	}
	return s.done, err
}
