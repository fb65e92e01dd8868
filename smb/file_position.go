package smb

import (
	"context"
	"io"
)

// Write writes p at the file's position and advances it. On a file opened with os.O_APPEND it writes at the
// end of the file, which is the position then: it asks the server for the length first, so two writers that append concurrently should
// lock the file. Such a write is not repeated: if the connection is lost before the server has answered, it fails with ErrConnLost, and the
// bytes behind the first n may have been appended. n counts the acknowledged bytes.
func (f *File) Write(p []byte) (int, error) {
	ctx, cancel := f.h.m.s.bounded(f.ctx)
	defer cancel()
	if err := f.h.lockPosition(ctx); err != nil {
		return 0, f.wrap("write", err)
	}
	defer f.h.unlockPosition()
	n, err := f.write(ctx, p)
	return n, f.wrap("write", err)
}

// write is Write; the caller holds the position.
func (f *File) write(ctx context.Context, p []byte) (n int, err error) {
	h := f.h
	h.discardReadAhead()
	defer h.changed()
	if h.append {
		return h.appendAll(ctx, p)
	}
	n, err = h.transfer(ctx, writing, p, h.off)
	h.off += int64(n)
	h.grown(h.off)
	return n, err
}

// WriteString is Write of s.
func (f *File) WriteString(s string) (int, error) { return f.Write([]byte(s)) }

// Seek sets the position of the next Read or Write, as io.Seeker. io.SeekEnd asks the
// server for the file's length.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	ctx, cancel := f.h.m.s.bounded(f.ctx)
	defer cancel()
	h := f.h
	if err := h.lockPosition(ctx); err != nil {
		return 0, f.wrap("seek", err)
	}
	defer h.unlockPosition()
	at := offset
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		at += h.off
	case io.SeekEnd:
		size, err := h.size(ctx)
		if err != nil {
			return h.off, f.wrap("seek", err)
		}
		at += size
	default:
		return h.off, f.wrap("seek", errWhence)
	}
	if at < 0 {
		return h.off, f.wrap("seek", errNegative)
	}
	if h.isDir && at == 0 {
		h.discardListing()
	}
	h.off = at
	return at, nil
}
