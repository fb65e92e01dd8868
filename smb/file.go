package smb

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// File is an open file or directory, like [os.File]. Its methods may be called from any
// goroutine: ReadAt, WriteAt and ReadBuffer run side by side; Read, Write, Seek,
// ReadFrom, WriteTo and the reading of a directory share one position and take turns.
//
// A slice given to a method is borrowed for the call. A read that fails may have
// written to it beyond the n bytes it reports.
type File struct {
	h   *handle
	ctx context.Context
}

var (
	_ fs.ReadDirFile     = (*File)(nil)
	_ io.ReaderAt        = (*File)(nil)
	_ io.WriterAt        = (*File)(nil)
	_ io.ReadWriteSeeker = (*File)(nil)
	_ io.ReaderFrom      = (*File)(nil)
	_ io.WriterTo        = (*File)(nil)
	_ io.StringWriter    = (*File)(nil)
)

// WithContext returns the same open file, position included, with another context for
// what is done through it. Closing either closes both.
func (f *File) WithContext(ctx context.Context) *File {
	if ctx == nil {
		panic("smb: nil context")
	}
	return &File{h: f.h, ctx: ctx}
}

// Name is the name given to Open.
func (f *File) Name() string { return f.h.name }

// wrap makes the error of an operation. io.EOF stays bare.
func (f *File) wrap(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &fs.PathError{Op: op, Path: f.h.name, Err: err}
}

var errNegative = errors.New("negative offset")

// ReadAt reads len(p) bytes from offset off straight into p. n < len(p) always comes
// with an error, io.EOF at the end of the file. A p longer than one request may move is
// read by several requests in flight at once.
func (f *File) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, f.wrap("read", errNegative)
	}
	ctx, cancel := f.h.m.s.bounded(f.ctx)
	defer cancel()
	n, err = f.h.readAt(ctx, p, off)
	if f.h.revived(ctx, err) {
		var m int
		m, err = f.h.readAt(ctx, p[n:], off+int64(n))
		n += m
	}
	return n, f.wrap("read", err)
}

// WriteAt writes p at offset off. n is how many bytes from the start of p the server
// has acknowledged; n < len(p) comes with an error, and what is beyond n may have been
// written or not. A p longer than one request may move is written by several requests
// in flight at once. It fails on a file opened with os.O_APPEND.
func (f *File) WriteAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, f.wrap("write", errNegative)
	}
	if f.h.append {
		return 0, f.wrap("write", errAppend)
	}
	ctx, cancel := f.h.m.s.bounded(f.ctx)
	defer cancel()
	n, err = f.writeAt(ctx, p, off)
	return n, f.wrap("write", err)
}

var errAppend = errors.New("WriteAt on a file opened with O_APPEND")

// writeAt is WriteAt, begun anew on a connection that replaced a broken one: writing
// the same bytes to the same place twice does no harm.
func (f *File) writeAt(ctx context.Context, p []byte, off int64) (int, error) {
	n, err := f.h.writeAt(ctx, p, off)
	if f.h.revived(ctx, err) {
		var m int
		m, err = f.h.writeAt(ctx, p[n:], off+int64(n))
		n += m
	}
	return n, err
}

// ReadBuffer reads up to n bytes at offset off, as much as one request may move, and
// hands out the receive buffer itself, uncopied. The caller frees it (rule 1). At the
// end of the file the error is io.EOF and there is nothing to free (rule 4). ctx
// stands in for the file's.
func (f *File) ReadBuffer(ctx context.Context, off int64, n int) (tarn.Buffer, error) {
	if off < 0 || n < 0 {
		return tarn.Buffer{}, f.wrap("read", errNegative)
	}
	if n == 0 {
		return tarn.Buffer{}, nil
	}
	ctx, cancel := f.h.m.s.bounded(ctx)
	defer cancel()
	b, err := f.h.readBuffer(ctx, off, n)
	if f.h.revived(ctx, err) {
		b, err = f.h.readBuffer(ctx, off, n)
	}
	return b, f.wrap("read", err)
}

// Sync asks the server to put what was written on stable storage (FLUSH).
func (f *File) Sync() error {
	ctx, cancel := f.h.m.s.bounded(f.ctx)
	defer cancel()
	t, id, err := f.h.live(ctx)
	if err == nil {
		cl := t.call(proto.CommandFlush)
		if err = t.roundTrip(ctx, cl, &proto.FlushRequest{FileID: id}); err == nil {
			t.c.release(cl)
		}
	}
	return f.wrap("sync", err)
}

// Close gives the file up. It is closed whatever the error; a second Close fails with
// ErrClosed.
func (f *File) Close() error {
	ctx, cancel := f.h.m.s.bounded(f.ctx)
	defer cancel()
	return f.wrap("close", f.h.close(ctx))
}

// Share is the share the file is on, with the file's context.
func (f *File) Share() *Share { return &Share{m: f.h.m, ctx: f.ctx} }
