package rclone

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"strings"

	"github.com/rclone/rclone/fs"
	"github.com/tarn-go/tarn/smb"
)

// linkSuffix is what rclone's backends add to the name of a symbolic link that is shown as a file with the link's target.
const linkSuffix = ".rclonelink"

// maxLinkTarget bounds what an upload may have to be made a symbolic link, in bytes.
const maxLinkTarget = 32 << 10

// linkOf is the name of the symbolic link that a path stands for; ok is false for other paths.
func (f *Fs) linkOf(name string) (link string, ok bool) {
	if !f.opt.Links {
		return name, false
	}
	return strings.CutSuffix(name, linkSuffix)
}

// isLink reports whether the remote path of an object stands for a symbolic link.
func (f *Fs) isLink(remote string) bool {
	_, name := f.split(remote)
	_, ok := f.linkOf(name)
	return ok
}

// useObject is use for the path of an object, which may stand for a symbolic link.
func (f *Fs) useObject(ctx context.Context, remote string, none error, do func(share *smb.Share, name string) error) error {
	share, name := f.split(remote)
	name, _ = f.linkOf(name)
	return f.useName(ctx, share, name, none, do)
}

// readLink makes the object one of a symbolic link, which info describes.
func (o *Object) readLink(share *smb.Share, name string, info iofs.FileInfo) (err error) {
	if info.Mode()&iofs.ModeSymlink == 0 {
		return &iofs.PathError{Op: "readlink", Path: name, Err: iofs.ErrNotExist}
	}
	o.info, o.link = info, true
	o.target, err = share.Readlink(name)
	return err
}

// openLink is Open of a symbolic link, from offset, up to limit bytes; -1 is all.
func (o *Object) openLink(offset, limit int64) io.ReadCloser {
	text := o.target[min(offset, int64(len(o.target))):]
	if limit >= 0 {
		text = text[:min(limit, int64(len(text)))]
	}
	return io.NopCloser(strings.NewReader(text))
}

// updateLink makes a symbolic link to what in has, in place of one that has the name.
func (o *Object) updateLink(ctx context.Context, in io.Reader, a attributes) error {
	target, err := io.ReadAll(io.LimitReader(in, maxLinkTarget+1))
	if err != nil {
		return err
	}
	if len(target) > maxLinkTarget {
		return fmt.Errorf("%s: the target of a symbolic link has more than %d bytes", Type, maxLinkTarget)
	}
	return o.fs.useObject(ctx, o.remote, fs.ErrorIsDir, func(share *smb.Share, name string) error {
		info, err := share.Lstat(name)
		if err == nil && info.Mode()&iofs.ModeSymlink == 0 {
			return &iofs.PathError{Op: "symlink", Path: name, Err: iofs.ErrExist}
		}
		if err == nil {
			err = remove(share, share.Lstat, info, name)
		}
		if err != nil && !errors.Is(err, iofs.ErrNotExist) {
			return err
		}
		if err := o.fs.withParents(share, name, func() error { return share.Symlink(string(target), name) }); err != nil {
			return err
		}
		if err := share.Lchtimes(name, a.accessed, a.modified); err != nil {
			return err
		}
		if info, err = share.Lstat(name); err != nil {
			return err
		}
		return o.readLink(share, name, info)
	})
}
