package rclone

import (
	"context"
	"errors"
	iofs "io/fs"
	"os"
	"strings"

	"github.com/rclone/rclone/fs"
	"github.com/tarn-go/tarn/smb"
)

// sameShare returns an object that is on the share of remote too, and its path in that share; false if it is not.
func (f *Fs) sameShare(src fs.Object, remote string) (*Object, string, bool) {
	o, ok := src.(*Object)
	if !ok {
		return nil, "", false
	}
	from, name := o.fs.split(o.remote)
	to, _ := f.split(remote)
	return o, o.fs.onServer(name), from == to && o.fs.conns.addr == f.conns.addr
}

// Copy has the server copy a file, without its data passing through the client.
func (f *Fs) Copy(ctx context.Context, src fs.Object, remote string) (fs.Object, error) {
	o, from, ok := f.sameShare(src, remote)
	if !ok || o.link || f.isLink(remote) {
		return nil, fs.ErrorCantCopy
	}
	a, err := attributesFor(ctx, f, src, fs.MetadataAsOpenOptions(ctx))
	if err != nil {
		return nil, err
	}
	var copied iofs.FileInfo
	err = f.use(ctx, remote, fs.ErrorCantCopy, func(share *smb.Share, name string) error {
		source, err := share.Open(from)
		if err != nil {
			return err
		}
		defer source.Close()
		target, created, err := f.openTarget(share, name, os.O_RDWR) // a server that copies demands the right to read, too
		if err != nil {
			return err
		}
		u := &upload{fs: f, share: share, name: name, file: target, discard: created, attributes: a}
		if _, err := target.CopyFrom(source); err != nil {
			u.abort(ctx)
			return err
		}
		copied, err = u.finish(ctx)
		return err
	})
	if errors.Is(err, smb.ErrUnsupported) {
		return nil, fs.ErrorCantCopy
	}
	if err != nil {
		return nil, missing(err, fs.ErrorObjectNotFound)
	}
	return &Object{fs: f, remote: remote, info: copied}, nil
}

// Move renames a file, and replaces one that has the name.
func (f *Fs) Move(ctx context.Context, src fs.Object, remote string) (fs.Object, error) {
	o, from, ok := f.sameShare(src, remote)
	if !ok || o.link || f.isLink(remote) { // smb.Share.Rename may lose links: rclone makes others then, with their times
		return nil, fs.ErrorCantMove
	}
	a, err := attributesFor(ctx, f, src, fs.MetadataAsOpenOptions(ctx))
	if err != nil {
		return nil, err
	}
	var moved iofs.FileInfo
	isFile := func(info iofs.FileInfo) error {
		switch moved = info; {
		case info.Mode()&iofs.ModeSymlink != 0: // one that is followed, or has taken the file's place
			return fs.ErrorCantMove
		case info.IsDir():
			return fs.ErrorIsDir
		}
		return nil
	}
	err = f.use(ctx, remote, fs.ErrorCantMove, func(share *smb.Share, name string) error {
		// Samba 4.17 gives the file the name, in another case, of one that it had not found missing yet. One that this user may not look at can
		// be replaced.
		if _, err := share.Lstat(name); err != nil && !errors.Is(err, iofs.ErrNotExist) && !errors.Is(err, iofs.ErrPermission) {
			return err
		}
		move := func() error { return share.RenameIf(from, name, isFile) }
		if err := f.withParents(share, name, func() error { return rename(f.look(share), o.info, from, name, move) }); err != nil {
			return err
		}
		changes := a.besides(o.info) // what another client has changed since stays
		left := changes.besides(moved)
		if had := moved.Sys().(*smb.FileStat).FileAttributes; a.file != 0 && left.file == 0 && had&archive == 0 {
			left.file = had
		}
		if !left.none() {
			moved, err = left.setNamed(share, name, moved)
		}
		return err
	})
	if errors.Is(err, fs.ErrorCantMove) {
		return nil, fs.ErrorCantMove
	}
	if err != nil {
		return nil, missing(err, fs.ErrorObjectNotFound)
	}
	return &Object{fs: f, remote: remote, info: moved}, nil
}

// archive is the attribute that servers such as Samba give a file that is renamed.
const archive = 0x20

// DirMove renames a directory to a name that does not exist.
func (f *Fs) DirMove(ctx context.Context, src fs.Fs, srcRemote, dstRemote string) error {
	other, ok := src.(*Fs)
	if !ok {
		return fs.ErrorCantDirMove
	}
	fromShare, from := other.split(srcRemote)
	toShare, to := f.split(dstRemote)
	if fromShare != toShare || other.conns.addr != f.conns.addr || from == "" || to == "" {
		return fs.ErrorCantDirMove
	}
	if strings.HasPrefix(to, from+"/") {
		return fs.ErrorOverlapping
	}
	err := f.use(ctx, dstRemote, fs.ErrorCantDirMove, func(share *smb.Share, name string) error {
		if _, err := share.Lstat(name); err == nil {
			return fs.ErrorDirExists // also where it is the source itself, which servers rename to its own name
		}
		from := other.onServer(from)
		before, err := share.Lstat(from)
		if err != nil {
			return err
		}
		isNoLink := func(info iofs.FileInfo) error {
			if info.Mode()&iofs.ModeSymlink != 0 {
				return fs.ErrorCantDirMove
			}
			return nil
		}
		move := func() error { return share.RenameNoReplaceIf(from, name, isNoLink) }
		return f.withParents(share, name, func() error { return rename(share.Lstat, before, from, name, move) })
	})
	switch {
	case errors.Is(err, iofs.ErrExist):
		return fs.ErrorDirExists
	case errors.Is(err, fs.ErrorCantDirMove):
		return fs.ErrorCantDirMove
	}
	return missing(err, fs.ErrorDirNotFound)
}
