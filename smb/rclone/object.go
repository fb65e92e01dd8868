package rclone

import (
	"context"
	"errors"
	"io"
	iofs "io/fs"
	"os"
	"time"

	"github.com/rclone/rclone/fs"
	"github.com/rclone/rclone/fs/hash"
	"github.com/tarn-go/tarn/smb"
)

// Object is a file, or a symbolic link that is shown as one.
type Object struct {
	fs     *Fs
	remote string
	info   iofs.FileInfo
	link   bool   // remote ends in linkSuffix
	target string // of the link
}

var (
	_ fs.Object        = (*Object)(nil)
	_ fs.Metadataer    = (*Object)(nil)
	_ fs.SetMetadataer = (*Object)(nil)
)

func (o *Object) Fs() fs.Info                                     { return o.fs }
func (o *Object) Remote() string                                  { return o.remote }
func (o *Object) ModTime(context.Context) time.Time               { return o.info.ModTime() }
func (o *Object) Storable() bool                                  { return true }
func (o *Object) Hash(context.Context, hash.Type) (string, error) { return "", hash.ErrUnsupported }
func (o *Object) Size() int64 {
	if o.link {
		return int64(len(o.target))
	}
	return o.info.Size()
}
func (o *Object) String() string {
	if o == nil {
		return "<nil>"
	}
	return o.remote
}

func (o *Object) SetModTime(ctx context.Context, t time.Time) error {
	return o.set(ctx, attributes{modified: t, uid: -1, gid: -1})
}

// SetMetadata sets times; with the POSIX extensions also owners and permissions, which links keep. What meta does not have stays.
func (o *Object) SetMetadata(ctx context.Context, meta fs.Metadata) error {
	a, err := o.fs.attributesIn(meta)
	if err != nil {
		return err
	}
	return o.set(ctx, a)
}

// set sets the attributes of the file, or the times of the link.
func (o *Object) set(ctx context.Context, a attributes) error {
	err := o.use(ctx, fs.ErrorCantSetModTime, func(share *smb.Share, name string) error {
		set := share.Chtimes
		if o.link {
			set = share.Lchtimes
		}
		if err := set(name, a.accessed, a.modified); err != nil {
			return err
		}
		info, err := o.look(share)(name)
		if err == nil && !o.link {
			info, err = a.setPOSIX(share, name, info)
		}
		if err == nil {
			o.info = info
		}
		return err
	})
	return missing(err, fs.ErrorObjectNotFound)
}

func (o *Object) Remove(ctx context.Context) error {
	err := o.use(ctx, fs.ErrorIsDir, func(share *smb.Share, name string) error {
		return remove(share, o.look(share), o.info, name)
	})
	return missing(err, fs.ErrorObjectNotFound)
}

// look describes objects of this one's kind on the share.
func (o *Object) look(share *smb.Share) lookup {
	if o.link {
		return share.Lstat
	}
	return o.fs.look(share)
}

// Open reads the file, from the place and for the length that the options say. The lease of the connection ends with Close.
func (o *Object) Open(ctx context.Context, options ...fs.OpenOption) (io.ReadCloser, error) {
	offset, limit := int64(0), int64(-1)
	for _, option := range options {
		switch x := option.(type) {
		case *fs.SeekOption:
			offset = x.Offset
		case *fs.RangeOption:
			offset, limit = x.Decode(o.Size())
		default:
			if option.Mandatory() {
				fs.Logf(o, "an option is not supported: %v", option)
			}
		}
	}
	if o.link {
		return o.openLink(offset, limit), nil
	}
	share, name := o.fs.split(o.remote)
	l, err := o.fs.conns.get(ctx, o.fs.opt.Enc.FromStandardName(share))
	if err != nil {
		return nil, o.fs.translate(err)
	}
	file, err := l.share.Open(o.fs.onServer(name))
	if err == nil {
		if _, err = file.Seek(offset, io.SeekStart); err != nil {
			file.Close()
		}
	}
	if err != nil {
		l.release(err)
		return nil, o.fs.translate(missing(err, fs.ErrorObjectNotFound))
	}
	r := &reader{Reader: file, file: file, lease: l, fs: o.fs}
	if limit >= 0 {
		r.Reader = io.LimitReader(file, limit)
	}
	return r, nil
}

// reader is an open file with its lease.
type reader struct {
	io.Reader
	file  *smb.File
	lease *lease
	fs    *Fs
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	return n, r.fs.translate(err)
}

func (r *reader) Close() error {
	err := r.file.Close()
	if errors.Is(err, smb.ErrHandleLost) {
		err = nil // the server has closed it, and nothing was written to it
	}
	r.lease.release(err)
	return r.fs.translate(err)
}

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
		var file *smb.File
		created := true
		open := func() (err error) {
			if file, err = share.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, o.fs.filePerm); errors.Is(err, iofs.ErrExist) {
				created = false
				file, err = share.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, o.fs.filePerm)
			}
			return err
		}
		if err := o.fs.withParents(share, name, open); err != nil {
			return err
		}
		_, err := file.ReadFrom(in)
		if err == nil {
			err = file.Chtimes(a.accessed, a.modified)
		}
		if err == nil {
			o.info, err = file.Stat()
		}
		if closeErr := file.Close(); err == nil {
			err = closeErr
		}
		if err == nil {
			o.info, err = a.setPOSIX(share, name, o.info)
		}
		if err != nil && created {
			if removeErr := removeAfter(ctx, share, name); removeErr != nil {
				fs.Errorf(o, "what was uploaded until the failure cannot be removed: %v", removeErr)
			}
		}
		return err
	})
}

// removeAfter removes a file of a failed upload, whose context may have ended.
func removeAfter(ctx context.Context, share *smb.Share, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), smb.DefaultCloseTimeout)
	defer cancel()
	return share.WithContext(ctx).Remove(name)
}

// OpenWriterAt opens a file that is written in pieces, by several goroutines at once. It is truncated first.
func (f *Fs) OpenWriterAt(ctx context.Context, remote string, size int64) (fs.WriterAtCloser, error) {
	share, name := f.split(remote)
	if share == "" || name == "" {
		return nil, fs.ErrorIsDir
	}
	if f.isLink(remote) {
		return nil, fs.ErrorNotImplemented
	}
	name = f.onServer(name)
	l, err := f.conns.get(ctx, f.opt.Enc.FromStandardName(share))
	if err != nil {
		return nil, f.translate(err)
	}
	var file *smb.File
	err = f.withParents(l.share, name, func() (err error) {
		file, err = l.share.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, f.filePerm)
		return err
	})
	if err == nil && size > 0 {
		if err = file.Truncate(size); err != nil {
			file.Close()
		}
	}
	if err != nil {
		l.release(err)
		return nil, f.translate(err)
	}
	return &writerAt{file, l, f}, nil
}

// writerAt is an open file with its lease.
type writerAt struct {
	file  *smb.File
	lease *lease
	fs    *Fs
}

func (w *writerAt) WriteAt(p []byte, off int64) (int, error) {
	n, err := w.file.WriteAt(p, off)
	return n, w.fs.translate(err)
}

func (w *writerAt) Close() error {
	err := w.file.Close()
	w.lease.release(err)
	return w.fs.translate(err)
}
