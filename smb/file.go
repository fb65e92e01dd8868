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
	n, err = f.h.transfer(ctx, reading, p, off)
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
	n, err = f.h.transfer(ctx, writing, p, off)
	f.h.grown(off + int64(n))
	f.h.changed()
	return n, f.wrap("write", err)
}

var errAppend = errors.New("WriteAt on a file opened with O_APPEND")

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
	var b tarn.Buffer
	err := f.h.again(ctx, func(t *tree, id proto.FileID) (err error) {
		b, err = t.readBuffer(ctx, id, off, n)
		return err
	})
	return b, f.wrap("read", err)
}

// Sync asks the server to put what was written on stable storage (FLUSH).
func (f *File) Sync() error {
	ctx, cancel := f.h.m.s.bounded(f.ctx)
	defer cancel()
	err := f.h.again(ctx, func(t *tree, id proto.FileID) error {
		return t.Do(ctx, t.Call(proto.CommandFlush), &proto.FlushRequest{FileID: id})
	})
	return f.wrap("sync", err)
}

// Close gives the file up. It is closed whatever the error; a second Close fails with
// ErrClosed. The server is told even when the file's context has ended, and has
// Limits.CloseTimeout to answer.
func (f *File) Close() error {
	ctx, cancel := f.h.m.s.closing(f.ctx)
	defer cancel()
	return f.wrap("close", f.h.close(ctx))
}

// Share is the share the file is on, with the file's context.
func (f *File) Share() *Share { return &Share{m: f.h.m, ctx: f.ctx, at: f.h.at} }
