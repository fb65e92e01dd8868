package rclone

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rclone/rclone/fs"
	"github.com/tarn-go/tarn/smb"
)

// linkSuffix is what rclone's backends add to the name of a symbolic link that is shown as a file with the link's target.
const linkSuffix = ".rclonelink"

// maxLinkTarget bounds what an upload may have to be made a symbolic link, in bytes.
const maxLinkTarget = 32 << 10

// linkOf is the name of the symbolic link that a path stands for; ok is false for other paths.
func (f *Fs) linkOf(name string) (link string, ok bool) {
	link, ok = strings.CutSuffix(name, linkSuffix)
	if !f.opt.Links || !ok {
		return name, false
	}
	switch link[strings.LastIndexByte(link, '/')+1:] {
	case "", ".", "..": // no link has such a name
		return name, false
	}
	return link, true
}

// isLink reports whether the remote path of an object stands for a symbolic link.
func (f *Fs) isLink(remote string) bool {
	_, name := f.split(remote)
	_, ok := f.linkOf(name)
	return ok
}

// newObject is the object with a remote path, which is not described yet.
func (f *Fs) newObject(remote string) *Object {
	return &Object{fs: f, remote: remote, link: f.isLink(remote)}
}

// use is Fs.use for the object's path, or the symbolic link that it stands for.
func (o *Object) use(ctx context.Context, none error, do func(share *smb.Share, name string) error) error {
	share, name := o.fs.split(o.remote)
	if o.link {
		name, _ = o.fs.linkOf(name)
	}
	return o.fs.useName(ctx, share, name, none, do)
}

// logUnnamable logs the first file that is no symbolic link and has the name that stands for one, so that it cannot be named.
func (f *Fs) logUnnamable(remote string) {
	f.unnamable.Do(func() {
		fs.Debugf(f, "%s: files that are no symbolic links and have names that end in %s are left out", remote, linkSuffix)
	})
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

// updateLink makes a symbolic link to what in has, in place of one that has the name. That one is made again if the new one cannot be made.
func (o *Object) updateLink(ctx context.Context, in io.Reader, a attributes) error {
	b, err := io.ReadAll(io.LimitReader(in, maxLinkTarget+1))
	if err != nil {
		return err
	}
	target := string(b)
	switch {
	case len(target) > maxLinkTarget:
		return fmt.Errorf("%s: the target of a symbolic link has more than %d bytes", Type, maxLinkTarget)
	case target == "" || !utf8.ValidString(target) || strings.IndexByte(target, 0) >= 0:
		return fmt.Errorf("%s: %q cannot be the target of a symbolic link", Type, target)
	}
	return o.use(ctx, fs.ErrorIsDir, func(share *smb.Share, name string) error {
		if err := o.setLink(ctx, share, name, target, a); err != nil {
			return err
		}
		info, err := share.Lstat(name)
		if err != nil {
			return err
		}
		return o.readLink(share, name, info)
	})
}

// setLink makes name a symbolic link to target, unless it is one, with the times that a has. Another file stays.
func (o *Object) setLink(ctx context.Context, share *smb.Share, name, target string, a attributes) error {
	link := func() error {
		return o.fs.withParents(share, name, func() error { return symlink(share, target, name, a) })
	}
	info, err := share.Lstat(name)
	if errors.Is(err, iofs.ErrNotExist) {
		if isAbsolute(target) {
			return errAbsolute
		}
		return link()
	}
	if err != nil {
		return err
	}
	if info.Mode()&iofs.ModeSymlink == 0 {
		return &iofs.PathError{Op: "symlink", Path: name, Err: iofs.ErrExist}
	}
	old, err := share.Readlink(name)
	if err != nil {
		return err
	}
	if old == target {
		return a.setLinkTimes(share, name, info)
	}
	if isAbsolute(target) {
		return errAbsolute
	}
	if err = removeIf(share, share.Lstat, info, name, isLink); err == nil {
		err = link()
	}
	if err != nil {
		if failed := linkAfter(ctx, share, name, old, info); failed != nil && !errors.Is(failed, iofs.ErrExist) {
			fs.Errorf(o, "the symbolic link to %q, which was to be replaced, cannot be made again: %v", old, failed)
		}
	}
	return err
}

// errAbsolute is returned for targets that [smb.Share.Symlink] makes paths on the share of: rclone would compare another target, and remove
// the link. Links on the server's disk may have them.
var errAbsolute = errors.New(Type + ": an absolute path cannot be the target of a symbolic link")

func isAbsolute(target string) bool {
	return strings.IndexAny(target, `/\`) == 0 && strings.IndexAny(target[1:], `/\`) != 0
}

// symlink makes a symbolic link with the times that a has. One to the same target that has its name after a loss is taken for it.
func symlink(share *smb.Share, target, name string, a attributes) error {
	return settle(func() error { return share.SymlinkTimes(target, name, a.accessed, a.modified) }, func() (bool, error) {
		info, err := share.Lstat(name)
		if gone, err := isMissing(info, err); gone || err != nil {
			return false, err
		}
		now, err := share.Readlink(name)
		if err == nil && now != target {
			err = errAnother
		}
		if err == nil { // the server may have set none
			err = a.setLinkTimes(share, name, info)
		}
		return err == nil, err
	})
}

// setLinkTimes sets the times of the symbolic link before, unless another file has its name by now.
func (a *attributes) setLinkTimes(share *smb.Share, name string, before iofs.FileInfo) error {
	return share.LchtimesIf(name, a.accessed, a.modified, func(now iofs.FileInfo) error {
		if !sameFile(before, now) {
			return errAnother
		}
		return isLink(now)
	})
}

// linkAfter makes the symbolic link before again, to target, after a failed update, whose context may have ended.
func linkAfter(ctx context.Context, share *smb.Share, name, target string, before iofs.FileInfo) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), smb.DefaultCloseTimeout)
	defer cancel()
	accessed := time.Time{}
	if st, ok := before.Sys().(*smb.FileStat); ok {
		accessed = st.LastAccessTime
	}
	return share.WithContext(ctx).SymlinkTimes(target, name, accessed, before.ModTime())
}
