package rclone

import (
	"context"
	"errors"
	"io"
	iofs "io/fs"
	"sync/atomic"
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

	opened atomic.Uint64 // id of the file that Open has opened; 0: none, or not known
}

var (
	_ fs.Object     = (*Object)(nil)
	_ fs.Metadataer = (*Object)(nil) // but no SetMetadataer: rclone's tests expect user metadata of one
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

// SetModTime sets the time of the last modification, of the file or of the link.
func (o *Object) SetModTime(ctx context.Context, t time.Time) error {
	err := o.use(ctx, fs.ErrorCantSetModTime, func(share *smb.Share, name string) error {
		set := share.Lchtimes
		switch {
		case o.link:
			set = func(name string, atime, mtime time.Time) error { return share.LchtimesIf(name, atime, mtime, isLink) }
		case o.fs.opt.CopyLinks:
			set = share.Chtimes
		}
		if err := set(name, time.Time{}, t); err != nil {
			return err
		}
		info, err := o.look(share)(name)
		if err == nil {
			o.info = info
		}
		return err
	})
	return missing(err, fs.ErrorObjectNotFound)
}

func (o *Object) Remove(ctx context.Context) error {
	err := o.use(ctx, fs.ErrorIsDir, func(share *smb.Share, name string) error {
		if !o.link {
			return remove(share, o.look(share), o.info, name)
		}
		err := removeIf(share, share.Lstat, o.info, name, isLink)
		if errors.Is(err, errNoLink) {
			return nil // a sync has put a file in place of the link, and removes the link afterwards
		}
		return err
	})
	return missing(err, fs.ErrorObjectNotFound)
}

// errNoLink says that a name is not that of a symbolic link.
var errNoLink = errors.New("no symbolic link")

func isLink(info iofs.FileInfo) error {
	if info.Mode()&iofs.ModeSymlink == 0 {
		return errNoLink
	}
	return nil
}

// look describes objects of this one's kind on the share.
func (o *Object) look(share *smb.Share) lookup {
	if o.link {
		return share.Lstat
	}
	return o.fs.look(share)
}

// Open reads the file, from the place and for the length that the options say. The lease of the connection ends with Close. rclone reads large
// files in pieces, and the rest of one after a failure: Open fails if the piece before was of another file.
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
		if offset == 0 && limit < 0 {
			o.opened.Store(0)
		}
		if err = o.isOpened(file); err == nil {
			_, err = file.Seek(offset, io.SeekStart)
		}
		if err != nil {
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

// isOpened returns nil if file is the one that was opened before, or the first.
func (o *Object) isOpened(file *smb.File) error {
	id, err := file.ID()
	if err != nil || id == 0 || o.opened.CompareAndSwap(0, id) || o.opened.Load() == id {
		return err
	}
	return &iofs.PathError{Op: "open", Path: file.Name(), Err: errAnother}
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
