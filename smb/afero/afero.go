// Package afero makes an afero.Fs (github.com/spf13/afero) of a share of package smb:
//
//	share, err := session.Mount(ctx, "photos")
//	...
//	appFS := afero.New(share)
//
// Names are relative to the share's root; a "/" in front of them is ignored. Errors are known to
// os.IsNotExist, os.IsExist and os.IsPermission. A file is an *smb.File.
package afero

import (
	"os"
	"time"

	"github.com/spf13/afero"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/oserr"
)

// FS is a share as an afero.Fs. It is safe for concurrent use. Operations run under the share's context.
type FS struct{ share *smb.Share }

var (
	_ afero.Fs        = (*FS)(nil)
	_ afero.Symlinker = (*FS)(nil)
	_ afero.File      = (*smb.File)(nil)
)

// New makes an afero.Fs of share. It borrows share: after Unmount every method of the FS fails.
func New(share *smb.Share) *FS { return &FS{share} }

// Name is "smb".
func (f *FS) Name() string { return "smb" }

// file converts the results of package smb: when err is not nil the afero.File is a nil interface, not an
// interface that holds a nil *smb.File.
func file(f *smb.File, err error) (afero.File, error) {
	if err != nil {
		return nil, oserr.From(err)
	}
	return f, nil
}

// Create makes or empties the named file and opens it for reading and writing.
func (f *FS) Create(name string) (afero.File, error) { return file(f.share.Create(name)) }

// Open opens the named file or directory for reading.
func (f *FS) Open(name string) (afero.File, error) { return file(f.share.Open(name)) }

// OpenFile opens the named file with the flags of package os.
func (f *FS) OpenFile(name string, flag int, perm os.FileMode) (afero.File, error) {
	return file(f.share.OpenFile(name, flag, perm))
}

// Mkdir makes a directory. perm has an effect with the POSIX extensions alone; otherwise the server sets the permissions.
func (f *FS) Mkdir(name string, perm os.FileMode) error { return oserr.From(f.share.Mkdir(name, perm)) }

// MkdirAll makes a directory and the missing directories above it.
func (f *FS) MkdirAll(path string, perm os.FileMode) error {
	return oserr.From(f.share.MkdirAll(path, perm))
}

// Remove removes the named file, symbolic link or empty directory.
func (f *FS) Remove(name string) error { return oserr.From(f.share.Remove(name)) }

// RemoveAll removes path and everything in it. It returns nil when path does not exist.
func (f *FS) RemoveAll(path string) error { return oserr.From(f.share.RemoveAll(path)) }

// Rename moves oldname to newname and replaces a file that has that name.
func (f *FS) Rename(oldname, newname string) error {
	return oserr.From(f.share.Rename(oldname, newname))
}

// Stat describes the named file, following symbolic links.
func (f *FS) Stat(name string) (os.FileInfo, error) {
	fi, err := f.share.Stat(name)
	return fi, oserr.From(err)
}

// Chmod sets the permissions with the POSIX extensions. Otherwise it marks the named file read-only, or not, by the owner's write bit.
func (f *FS) Chmod(name string, mode os.FileMode) error { return oserr.From(f.share.Chmod(name, mode)) }

// Chown sets the owner and group by their ids on the server, where it has the POSIX extensions ([smb.Dialer.POSIX]). Elsewhere the error
// matches errors.ErrUnsupported: SMB identifies owners by SID.
func (f *FS) Chown(name string, uid, gid int) error { return oserr.From(f.share.Chown(name, uid, gid)) }

// Chtimes sets the times of the last access and last write, in steps of 100 ns.
func (f *FS) Chtimes(name string, atime, mtime time.Time) error {
	return oserr.From(f.share.Chtimes(name, atime, mtime))
}

// LstatIfPossible describes the named file; for a symbolic link, the link itself. The bool is always true:
// Lstat was used.
func (f *FS) LstatIfPossible(name string) (os.FileInfo, bool, error) {
	fi, err := f.share.Lstat(name)
	return fi, true, oserr.From(err)
}

// SymlinkIfPossible makes newname a symbolic link to oldname. The server may refuse it.
func (f *FS) SymlinkIfPossible(oldname, newname string) error {
	return oserr.From(f.share.Symlink(oldname, newname))
}

// ReadlinkIfPossible returns the target of the named symbolic link.
func (f *FS) ReadlinkIfPossible(name string) (string, error) {
	target, err := f.share.Readlink(name)
	return target, oserr.From(err)
}
