package rclone

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/rclone/rclone/fs"
	"github.com/rclone/rclone/fs/config/configmap"
	"github.com/rclone/rclone/fs/config/configstruct"
	"github.com/rclone/rclone/fs/fserrors"
	"github.com/rclone/rclone/fs/hash"
	"github.com/rclone/rclone/lib/bucket"
	"github.com/tarn-go/tarn/internal/umask"
	"github.com/tarn-go/tarn/smb"
)

// Fs is a remote: a server, one of its shares, or a directory of that. Its methods are safe for concurrent use.
type Fs struct {
	name, root string
	opt        options
	features   *fs.Features
	conns      *connections
	unnamable  sync.Once // see logUnnamable

	filePerm, dirPerm iofs.FileMode // of what is made
}

var (
	_ fs.Fs              = (*Fs)(nil)
	_ fs.Purger          = (*Fs)(nil)
	_ fs.Copier          = (*Fs)(nil)
	_ fs.Mover           = (*Fs)(nil)
	_ fs.DirMover        = (*Fs)(nil)
	_ fs.DirSetModTimer  = (*Fs)(nil)
	_ fs.PutStreamer     = (*Fs)(nil)
	_ fs.OpenChunkWriter = (*Fs)(nil)
	_ fs.ChangeNotifier  = (*Fs)(nil)
	_ fs.Abouter         = (*Fs)(nil)
	_ fs.Shutdowner      = (*Fs)(nil)
)

func newFs(ctx context.Context, name, root string, m configmap.Mapper) (fs.Fs, error) {
	f := &Fs{name: name, root: strings.Trim(root, "/"), filePerm: 0o666, dirPerm: 0o777}
	if err := configstruct.Set(m, &f.opt); err != nil {
		return nil, err
	}
	if f.opt.Links && f.opt.CopyLinks {
		return nil, errors.New(Type + ": links and copy_links exclude each other")
	}
	if f.opt.POSIX { // the server gives files the permissions that it is asked for
		mask := umask.Get()
		f.filePerm, f.dirPerm = f.filePerm&^mask, f.dirPerm&^mask
	}
	d, addr, err := f.opt.dialer()
	if err != nil {
		return nil, err
	}
	f.conns = newConnections(d, addr, f.opt.Connections, time.Duration(f.opt.IdleTimeout))
	posix, unusable := f.hasPOSIX(ctx)
	f.features = (&fs.Features{
		CaseInsensitive:          f.opt.CaseInsensitive && !posix,
		CanHaveEmptyDirectories:  true,
		BucketBased:              true,
		PartialUploads:           true,
		ReadMetadata:             true,
		WriteMetadata:            true,
		WriteDirSetModTime:       true,
		DirModTimeUpdatesOnWrite: true,
		ChunkWriterDoesntSeek:    true,
	}).Fill(ctx, f)
	if share, file := f.split(""); share == "" || file == "" || strings.HasSuffix(root, "/") || unusable != nil {
		return f, nil
	}
	// A remote may name a file. What cannot be looked at is taken for a directory: the next operation says why.
	if _, err := f.NewObject(ctx, ""); err == nil {
		if f.root = path.Dir(f.root); f.root == "." {
			f.root = ""
		}
		return f, fs.ErrorIsFile
	}
	return f, nil
}

// hasPOSIX reports whether the option posix is set and the remote's share has the extensions: a server may have them for some of its shares,
// or for none. The error says that the share cannot be used now.
func (f *Fs) hasPOSIX(ctx context.Context) (has bool, err error) {
	share, _ := f.split("")
	if !f.opt.POSIX || share == "" {
		return false, nil
	}
	err = f.useName(ctx, share, "", nil, func(share *smb.Share, name string) error {
		info, err := share.Lstat(name)
		if err == nil {
			has = posixOf(info) != nil
		}
		return err
	})
	if errors.Is(err, iofs.ErrPermission) && !errors.Is(err, smb.ErrLogin) {
		err = nil // the share's root alone may be refused
	}
	return has, err
}

func (f *Fs) Name() string             { return f.name }
func (f *Fs) Root() string             { return f.root }
func (f *Fs) Features() *fs.Features   { return f.features }
func (f *Fs) Precision() time.Duration { return 100 * time.Nanosecond }
func (f *Fs) Hashes() hash.Set         { return hash.NewHashSet() }
func (f *Fs) String() string {
	return fmt.Sprintf("%s://%s/%s", Type, f.conns.addr, f.root)
}

// split returns the share of a remote path, and the path in it.
func (f *Fs) split(remote string) (share, name string) {
	return bucket.Split(path.Join(f.root, remote))
}

// use runs an operation on the share and the name on the server of a remote path. Paths of the server itself have no share: then
// use fails with none.
func (f *Fs) use(ctx context.Context, remote string, none error, do func(share *smb.Share, name string) error) error {
	share, name := f.split(remote)
	return f.useName(ctx, share, name, none, do)
}

// useName is use with the name of the share and the path in it.
func (f *Fs) useName(ctx context.Context, share, name string, none error, do func(share *smb.Share, name string) error) error {
	if share == "" {
		return none
	}
	l, err := f.conns.get(ctx, f.opt.Enc.FromStandardName(share))
	if err != nil {
		return f.translate(err)
	}
	err = do(l.share, f.onServer(name))
	l.release(err)
	return f.translate(err)
}

// onServer is a path in a share as the server has it; "." for the share's root.
func (f *Fs) onServer(name string) string {
	if name == "" {
		return "."
	}
	return f.opt.Enc.FromStandardPath(name)
}

// translate marks errors that another attempt may not meet. ErrClosed is one of them: another operation that cannot use a session again
// closes it. A refused login ends rclone's command, because servers lock the accounts of users after a number of refusals.
func (f *Fs) translate(err error) error {
	if errors.Is(err, smb.ErrLogin) {
		if f.opt.Pass != "" && !f.opt.UseKerberos {
			err = fmt.Errorf("%w; %s", err, passHint)
		}
		return fserrors.FatalError(err)
	}
	for _, lost := range []error{smb.ErrConnLost, smb.ErrHandleLost, smb.ErrShareLost, smb.ErrClosed} {
		if errors.Is(err, lost) {
			return fserrors.RetryError(err)
		}
	}
	return err
}

// missing is err, or instead of it where a file or directory does not exist.
func missing(err, instead error) error {
	if errors.Is(err, iofs.ErrNotExist) {
		return instead
	}
	return err
}

// List returns what is in a directory; the shares of the server where that is the root.
func (f *Fs) List(ctx context.Context, dir string) (fs.DirEntries, error) {
	if share, _ := f.split(dir); share == "" {
		return f.listShares(ctx)
	}
	var entries fs.DirEntries
	err := f.use(ctx, dir, fs.ErrorDirNotFound, func(share *smb.Share, name string) error {
		for e, err := range share.Entries(name) {
			if errors.Is(err, smb.ErrName) {
				fs.Logf(f, "%s: a name is left out: %v", dir, err)
				continue
			}
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			base, err := f.longName(share, name, e.Name())
			if err != nil {
				return err
			}
			remote := path.Join(dir, f.opt.Enc.ToStandardName(base))
			if info.Mode()&iofs.ModeSymlink != 0 && f.opt.Links {
				o := f.newObject(remote + linkSuffix)
				if err := o.readLink(share, path.Join(name, base), info); err != nil {
					if err := f.leaveOut(ctx, path.Join(name, base), err); err != nil {
						return err
					}
					continue
				}
				entries = append(entries, o)
				continue
			}
			if info.Mode()&iofs.ModeSymlink != 0 {
				if info, err = f.follow(ctx, share, path.Join(name, base)); err != nil {
					return err
				} else if info == nil {
					continue
				}
			}
			switch {
			case info.IsDir():
				entries = append(entries, &Directory{fs.NewDir(remote, info.ModTime()), f})
			case f.isLink(remote):
				f.logUnnamable(remote)
			default:
				entries = append(entries, &Object{fs: f, remote: remote, info: info})
			}
		}
		return nil
	})
	return entries, missing(err, fs.ErrorDirNotFound)
}

// longName is the name of an entry of the directory dir on the server, where the listing may have a short one: Samba lists files so whose
// names Windows does not have, such as "aux.c". A sync would take aux.c for a new file, upload it, and remove it by its short name. The short
// name stays where the long one would be encoded to that of another file.
func (f *Fs) longName(share *smb.Share, dir, name string) (string, error) {
	if !mayBeShort(name) {
		return name, nil
	}
	long, err := share.LongName(path.Join(dir, name))
	if errors.As(err, new(*smb.ResponseError)) && !errors.Is(err, smb.ErrConnLost) || errors.Is(err, smb.ErrName) {
		return name, nil
	}
	if err == nil && f.opt.Enc.FromStandardName(f.opt.Enc.ToStandardName(long)) != long {
		return name, nil
	}
	return long, err
}

// mayBeShort reports whether a name is in the form of short names: eight characters with a tilde, none in lower case, and an extension.
func mayBeShort(name string) bool {
	return len(name) <= 12 && strings.Contains(name, "~") && strings.ToUpper(name) == name
}

// Directory is a directory of a share.
type Directory struct {
	*fs.Dir
	fs *Fs
}

func (d *Directory) Fs() fs.Info { return d.fs }

// SetModTime sets the time of the last modification.
func (d *Directory) SetModTime(ctx context.Context, t time.Time) error {
	if err := d.fs.DirSetModTime(ctx, d.Remote(), t); err != nil {
		return err
	}
	d.Dir = fs.NewDir(d.Remote(), t)
	return nil
}

// follow returns what a symbolic link leads to; nil if it is to be left out. A link that cannot be followed is left out and counted as an
// error of the command, so that a sync does not remove its copy. The listing fails where the link was not the cause.
func (f *Fs) follow(ctx context.Context, share *smb.Share, name string) (iofs.FileInfo, error) {
	if !f.opt.CopyLinks {
		fs.Logf(f, "%s: the symbolic link is left out; see links and copy_links", name)
		return nil, nil
	}
	info, err := share.Stat(name)
	if err == nil {
		return info, nil
	}
	return nil, f.leaveOut(ctx, name, err)
}

// leaveOut leaves a symbolic link out of a listing because of err, which it counts; or returns err if the link was not the cause.
func (f *Fs) leaveOut(ctx context.Context, name string, err error) error {
	if ctx.Err() != nil || fserrors.IsRetryError(f.translate(err)) {
		return err
	}
	fs.Errorf(f, "%s: the symbolic link is left out: %v", name, err)
	fs.CountError(ctx, err)
	return nil
}

func (f *Fs) listShares(ctx context.Context) (fs.DirEntries, error) {
	l, err := f.conns.get(ctx, "")
	if err != nil {
		return nil, f.translate(err)
	}
	shares, err := l.Shares(ctx)
	l.release(err)
	if errors.Is(err, smb.ErrName) { // the others are listed
		fs.Logf(f, "a share is left out: %v", err)
		err = nil
	}
	var entries fs.DirEntries
	for _, s := range shares {
		special := s.Type&smb.ShareSpecial != 0 || strings.HasSuffix(s.Name, "$")
		if s.Type&^smb.ShareSpecial == smb.ShareDisk && !(special && f.opt.HideSpecial) {
			entries = append(entries, fs.NewDir(f.opt.Enc.ToStandardName(s.Name), time.Time{}))
		}
	}
	return entries, f.translate(err)
}

// NewObject finds a file.
func (f *Fs) NewObject(ctx context.Context, remote string) (fs.Object, error) {
	o := f.newObject(remote)
	err := o.use(ctx, fs.ErrorIsDir, func(share *smb.Share, name string) (err error) {
		if o.link {
			info, err := share.Lstat(name)
			if err != nil {
				return err
			}
			return o.readLink(share, name, info)
		}
		o.info, err = f.stat(share, name)
		return err
	})
	if err != nil {
		return nil, missing(err, fs.ErrorObjectNotFound)
	}
	if o.info.IsDir() {
		return nil, fs.ErrorIsDir
	}
	return o, nil
}

// stat describes a file. A symbolic link does not exist unless links are followed.
func (f *Fs) stat(share *smb.Share, name string) (iofs.FileInfo, error) {
	if f.opt.CopyLinks {
		return share.Stat(name)
	}
	info, err := share.Lstat(name)
	if err == nil && info.Mode()&iofs.ModeSymlink != 0 {
		return nil, &iofs.PathError{Op: "stat", Path: name, Err: iofs.ErrNotExist}
	}
	return info, err
}

// look is stat with the share.
func (f *Fs) look(share *smb.Share) lookup {
	return func(name string) (iofs.FileInfo, error) { return f.stat(share, name) }
}

func (f *Fs) Put(ctx context.Context, in io.Reader, src fs.ObjectInfo, options ...fs.OpenOption) (fs.Object, error) {
	o := f.newObject(src.Remote())
	if err := o.Update(ctx, in, src, options...); err != nil {
		return nil, err
	}
	return o, nil
}

func (f *Fs) PutStream(ctx context.Context, in io.Reader, src fs.ObjectInfo, options ...fs.OpenOption) (fs.Object, error) {
	return f.Put(ctx, in, src, options...)
}

// Mkdir makes a directory and those above it. Shares exist or do not.
func (f *Fs) Mkdir(ctx context.Context, dir string) error {
	return f.use(ctx, dir, nil, func(share *smb.Share, name string) error {
		if name == "." {
			return nil
		}
		return f.makeDirs(share, name)
	})
}

func (f *Fs) Rmdir(ctx context.Context, dir string) error {
	err := f.use(ctx, dir, nil, func(share *smb.Share, name string) error {
		if name == "." {
			return nil
		}
		info, err := share.Lstat(name)
		if err != nil {
			return err
		}
		return removeIf(share, share.Lstat, info, name, isDir)
	})
	return missing(err, fs.ErrorDirNotFound)
}

func isDir(info iofs.FileInfo) error {
	if !info.IsDir() {
		return fs.ErrorIsFile
	}
	return nil
}

// Purge removes a directory with all that is in it. It does not leave the tree: see smb.Share.RemoveAll.
func (f *Fs) Purge(ctx context.Context, dir string) error {
	err := f.use(ctx, dir, fs.ErrorCantPurge, func(share *smb.Share, name string) error {
		if name == "." {
			return fs.ErrorCantPurge
		}
		info, err := share.Lstat(name)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return fs.ErrorIsFile
		}
		return removeAll(share, info, name)
	})
	return missing(err, fs.ErrorDirNotFound)
}

// withParents runs do, and where it finds no directory makes those above name and runs it again.
func (f *Fs) withParents(share *smb.Share, name string, do func() error) error {
	err := do()
	if dir := path.Dir(name); errors.Is(err, iofs.ErrNotExist) && dir != "." {
		if err := f.makeDirs(share, dir); err != nil {
			return err
		}
		return do()
	}
	return err
}

func (f *Fs) DirSetModTime(ctx context.Context, dir string, t time.Time) error {
	err := f.use(ctx, dir, fs.ErrorCantSetModTime, func(share *smb.Share, name string) error {
		if f.opt.CopyLinks {
			return share.Chtimes(name, time.Time{}, t)
		}
		return share.Lchtimes(name, time.Time{}, t)
	})
	return missing(err, fs.ErrorDirNotFound)
}

func (f *Fs) About(ctx context.Context) (*fs.Usage, error) {
	usage := new(fs.Usage)
	err := f.use(ctx, "", fs.ErrorListBucketRequired, func(share *smb.Share, _ string) error {
		s, err := share.Statfs()
		if err == nil {
			usage.Total, usage.Used, usage.Free = &s.TotalBytes, ptr(s.TotalBytes-s.FreeBytes), &s.AvailableBytes
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return usage, nil
}

func ptr(n int64) *int64 { return &n }

// Shutdown closes the connections.
func (f *Fs) Shutdown(context.Context) error {
	f.conns.close()
	return nil
}
