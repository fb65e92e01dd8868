package rclone

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"sync"

	"github.com/rclone/rclone/fs"
	"github.com/tarn-go/tarn/smb"
)

// Update writes the file in place, so that an existing one keeps what it has besides data. If that fails, a new file is removed, and an
// existing one is left with what was written. rclone calls it for a file of another name, which it then moves, unless --inplace is set.
func (o *Object) Update(ctx context.Context, in io.Reader, src fs.ObjectInfo, options ...fs.OpenOption) error {
	a, err := attributesFor(ctx, o.fs, src, options)
	if err != nil {
		return err
	}
	if o.link {
		return o.updateLink(ctx, in, a)
	}
	return o.fs.use(ctx, o.remote, fs.ErrorIsDir, func(share *smb.Share, name string) error {
		u, err := o.fs.openUpload(share, name, a)
		if err != nil {
			return err
		}
		_, err = u.file.ReadFrom(in)
		if err != nil {
			u.abort(ctx)
			return err
		}
		o.info, err = u.finish(ctx)
		return err
	})
}

// upload is a file that is written anew.
type upload struct {
	fs      *Fs
	share   *smb.Share
	name    string
	file    *smb.File
	discard bool // if it cannot be completed
	attributes
}

// openUpload creates a file, or empties one, that gets the attributes a when it is complete.
func (f *Fs) openUpload(share *smb.Share, name string, a attributes) (*upload, error) {
	if err := f.keepLink(share, name); err != nil {
		return nil, err
	}
	u := &upload{fs: f, share: share, name: name, attributes: a}
	err := f.withParents(share, name, func() (err error) {
		u.discard = true
		if u.file, err = share.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.filePerm); errors.Is(err, iofs.ErrExist) {
			u.discard = false
			u.file, err = share.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, f.filePerm)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return u, nil
}

// finish sets the attributes of a complete file, closes it and describes it. If that fails, the file is removed as remove says.
func (u *upload) finish(ctx context.Context) (iofs.FileInfo, error) {
	var info iofs.FileInfo
	err := u.file.Chtimes(u.accessed, u.modified)
	if err == nil {
		info, err = u.file.Stat()
	}
	if closeErr := u.file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		info, err = u.setPOSIX(u.share, u.name, info)
	}
	if err != nil {
		u.remove(ctx)
	}
	return info, err
}

// abort closes a file that cannot be completed, and removes it as remove says.
func (u *upload) abort(ctx context.Context) {
	u.file.Close()
	u.remove(ctx)
}

// remove removes the file if discard is set, which it is for a new file. The context may have ended.
func (u *upload) remove(ctx context.Context) {
	if !u.discard {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), smb.DefaultCloseTimeout)
	defer cancel()
	if err := u.share.WithContext(ctx).Remove(u.name); err != nil {
		fs.Errorf(u.fs, "%s: what was uploaded until the failure cannot be removed: %v", u.name, err)
	}
}

// pieceBuffer is how many bytes of a chunk are written by one call: package smb sends them as one request.
const pieceBuffer = 1 << 20

// OpenChunkWriter opens a file that is written in chunks, by several goroutines at once. It is removed if it is not completed.
func (f *Fs) OpenChunkWriter(ctx context.Context, remote string, src fs.ObjectInfo, options ...fs.OpenOption) (fs.ChunkWriterInfo, fs.ChunkWriter, error) {
	ci := fs.GetConfig(ctx)
	info := fs.ChunkWriterInfo{ChunkSize: int64(ci.MultiThreadChunkSize), Concurrency: ci.MultiThreadStreams}
	for _, option := range options {
		if chunk, ok := option.(*fs.ChunkOption); ok && chunk.ChunkSize > 0 {
			info.ChunkSize = chunk.ChunkSize
		}
	}
	share, name := f.split(remote)
	if share == "" || name == "" {
		return info, nil, fs.ErrorIsDir
	}
	if f.isLink(remote) {
		return info, nil, fs.ErrorNotImplemented
	}
	a, err := attributesFor(ctx, f, src, options)
	if err != nil {
		return info, nil, err
	}
	l, err := f.conns.get(ctx, f.opt.Enc.FromStandardName(share))
	if err != nil {
		return info, nil, f.translate(err)
	}
	u, err := f.openUpload(l.share, f.onServer(name), a)
	if err == nil {
		u.discard = true // also if it existed: an incomplete file has the length of a complete one
	}
	if err == nil && src.Size() > 0 {
		if err = u.file.Truncate(src.Size()); err != nil {
			u.abort(ctx)
		}
	}
	if err != nil {
		l.release(err)
		return info, nil, f.translate(err)
	}
	return info, &chunkWriter{upload: u, lease: l, size: info.ChunkSize}, nil
}

// chunkWriter is an upload with the lease of its connection.
type chunkWriter struct {
	*upload
	lease *lease
	size  int64 // of each chunk but the last
	ended sync.Once
}

func (w *chunkWriter) WriteChunk(_ context.Context, number int, r io.ReadSeeker) (int64, error) {
	if number < 0 {
		return 0, fmt.Errorf("%s: there is no chunk %d", Type, number)
	}
	// The struct hides methods by which io.CopyBuffer would use another buffer.
	n, err := io.CopyBuffer(struct{ io.Writer }{io.NewOffsetWriter(w.file, int64(number)*w.size)}, struct{ io.Reader }{r}, make([]byte, pieceBuffer))
	return n, w.fs.translate(err)
}

// Close completes the file, unless it was closed or aborted before.
func (w *chunkWriter) Close(ctx context.Context) (err error) {
	w.ended.Do(func() {
		_, err = w.finish(ctx)
		w.lease.release(err)
	})
	return w.fs.translate(err)
}

// Abort gives the upload up, unless it was closed or aborted before.
func (w *chunkWriter) Abort(ctx context.Context) error {
	w.ended.Do(func() {
		w.abort(ctx)
		w.lease.release(nil)
	})
	return nil
}
