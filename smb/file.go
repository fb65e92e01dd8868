package smb

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// File is an open file or directory, like [os.File]. Its methods may be called from any goroutine: ReadAt,
// WriteAt and ReadBuffer run concurrently; Read, Write, Seek, ReadFrom, WriteTo and the methods that list a
// directory share one position and run one at a time.
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

// WithContext returns the same open file, with its position, under another context. Closing either closes
// both.
func (f *File) WithContext(ctx context.Context) *File {
	if ctx == nil {
		panic("smb: nil context")
	}
	return &File{h: f.h, ctx: ctx}
}

// Name is the name given to Open.
func (f *File) Name() string { return f.h.name }

// wrap adds the operation and the name to an error. io.EOF is returned as it is.
func (f *File) wrap(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &fs.PathError{Op: op, Path: f.h.name, Err: err}
}

var errNegative = errors.New("negative offset")

// ReadAt reads len(p) bytes from offset off directly into p. When n < len(p) the error is not nil; at the end
// of the file it is io.EOF. A p longer than one request may carry is read by several concurrent requests.
func (f *File) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, f.wrap("read", errNegative)
	}
	ctx, cancel := f.h.m.s.bounded(f.ctx)
	defer cancel()
	n, err = f.h.transfer(ctx, reading, p, off)
	return n, f.wrap("read", err)
}

// WriteAt writes p at offset off. n is how many bytes from the start of p the server has acknowledged; when n
// < len(p) the error is not nil, and the bytes beyond n may or may not have been written. A p longer than one
// request may carry is written by several concurrent requests. It fails on a file opened with os.O_APPEND.
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

// ReadBuffer reads up to n bytes at offset off, at most as many as one request may carry, and returns the
// receive buffer itself, without a copy. The caller frees it (rule 1). At the end of the file the error is
// io.EOF and there is nothing to free (rule 4). ctx is used in place of the file's context.
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
	err := f.h.run(ctx, opRead, func(t *tree, id proto.FileID) (err error) {
		b, err = t.readBuffer(ctx, id, off, n)
		return err
	})
	return b, f.wrap("read", err)
}

// Sync asks the server to write the file's data to stable storage (FLUSH).
func (f *File) Sync() error {
	ctx, cancel := f.h.m.s.bounded(f.ctx)
	defer cancel()
	err := f.h.run(ctx, opQueryFile, func(t *tree, id proto.FileID) error {
		return t.Do(ctx, t.Call(proto.CommandFlush), &proto.FlushRequest{FileID: id})
	})
	return f.wrap("sync", err)
}

// Close closes the file, whatever the error; a second Close fails with ErrClosed. CLOSE is sent even when the
// file's context has ended; the server has Limits.CloseTimeout to answer. When the context ends meanwhile, Close returns,
// and CLOSE is sent as soon as credits and the socket allow.
func (f *File) Close() error {
	ctx, cancel := f.h.m.s.closing(f.ctx)
	defer cancel()
	return f.wrap("close", f.h.close(ctx))
}

// Share returns the share of the file, with the file's context.
func (f *File) Share() *Share { return &Share{m: f.h.m, ctx: f.ctx, snapshot: f.h.snapshot} }
