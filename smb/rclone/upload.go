package rclone

import (
	"cmp"
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
	file, created, err := f.openTarget(share, name, os.O_WRONLY)
	if err != nil {
		return nil, err
	}
	if !created {
		if err := file.Truncate(0); err != nil {
			file.Close()
			return nil, err
		}
	}
	return &upload{fs: f, share: share, name: name, file: file, discard: created, attributes: a}, nil
}

// openTarget creates a file, with the directories above it, or opens one to be overwritten, with flag. A symbolic link that has the name is
// followed with copy_links alone; otherwise the error matches fs.ErrExist: uploads that are moved to the name when they are complete take the
// link's place.
func (f *Fs) openTarget(share *smb.Share, name string, flag int) (file *smb.File, created bool, err error) {
	err = f.withParents(share, name, func() (err error) {
		created = true
		file, err = share.OpenFile(name, flag|os.O_CREATE|os.O_EXCL, f.filePerm)
		if !errors.Is(err, iofs.ErrExist) {
			return err
		}
		created = false
		if f.opt.CopyLinks {
			file, err = share.OpenFile(name, flag|os.O_CREATE, f.filePerm)
			return err
		}
		file, err = openNamed(share, name, flag)
		return err
	})
	return file, created, err
}

// openNamed opens the file that has the name itself. What the name is that of is looked at after the file is open, since another client may
// replace a file by a symbolic link between two requests.
func openNamed(share *smb.Share, name string, flag int) (*smb.File, error) {
	file, openErr := share.OpenFile(name, flag, 0)
	named, err := share.Lstat(name)
	if err == nil && named.Mode()&iofs.ModeSymlink != 0 {
		err = &iofs.PathError{Op: "open", Path: name, Err: fmt.Errorf("a symbolic link has the name: %w", iofs.ErrExist)}
	}
	if openErr != nil {
		return nil, cmp.Or(err, openErr)
	}
	if err == nil {
		err = isNamed(file, named)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// isNamed returns nil if file is the one that named describes, or the server has no ids.
func isNamed(file *smb.File, named iofs.FileInfo) error {
	id, err := file.ID()
	if want := named.Sys().(*smb.FileStat).FileID; err != nil || id == 0 || want == 0 || id == want {
		return err
	}
	return &iofs.PathError{Op: "open", Path: file.Name(), Err: errAnother}
}

// finish sets the attributes of a complete file, closes it and describes it. If that fails, the file is removed as discardFile says.
func (u *upload) finish(ctx context.Context) (iofs.FileInfo, error) {
	info, err := u.set(u.file, u.share, u.name)
	if closeErr := u.file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		u.discardFile(ctx)
	}
	return info, err
}

// abort closes a file that cannot be completed, and removes it as discardFile says.
func (u *upload) abort(ctx context.Context) {
	u.discardFile(ctx)
	u.file.Close()
}

// discardFile removes the file if discard is set, which it is for a new file. Another file that has its name by now stays. The context may
// have ended.
func (u *upload) discardFile(ctx context.Context) {
	if !u.discard {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), smb.DefaultCloseTimeout)
	defer cancel()
	remove := u.file.WithContext(ctx).Remove // the same file or none, so that it may be repeated
	if err := settle(remove, never); err != nil && !errors.Is(err, iofs.ErrNotExist) {
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
