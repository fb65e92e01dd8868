package smb2

import (
	"context"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/tarn-go/tarn/smb"
)

// Share is a mounted share. Its methods are those of package os, on names relative to the
// share's root. It is safe for concurrent use.
type Share struct {
	s       *smb.Share
	mapping MapChars
	ctx     context.Context
}

// SMB returns the share of package smb, with the context of s.
func (s *Share) SMB() *smb.Share { return s.s }

// WithContext returns the same share under another context, which the files that it opens inherit. It panics
// when ctx is nil.
func (s *Share) WithContext(ctx context.Context) *Share {
	if ctx == nil {
		panic("nil context")
	}
	return &Share{s: s.s.WithContext(ctx), mapping: s.mapping, ctx: ctx}
}

// Umount disconnects the share. The server closes the files that are open on it.
func (s *Share) Umount() error { return translate(s.s.Unmount()) }

// name converts a name: local is in go-smb2's form, which errors show, and remote is the form that is sent.
func (s *Share) name(op, name string) (local, remote string, err error) {
	local = normPath(name)
	if err := checkPath(op, local); err != nil {
		return "", "", err
	}
	return local, s.mapping.outbound(local), nil
}

// Create makes or empties the named file and opens it for reading and writing.
func (s *Share) Create(name string) (*File, error) {
	return s.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

// Open opens the named file or directory for reading.
func (s *Share) Open(name string) (*File, error) { return s.OpenFile(name, os.O_RDONLY, 0) }

// OpenFile opens the named file with the flags of package os. A new file has the permissions perm with the POSIX extensions
// ([smb.Dialer.POSIX] in Dialer.SMB). Otherwise only the owner's write bit is used: without it a new file is read-only.
func (s *Share) OpenFile(name string, flag int, perm os.FileMode) (*File, error) {
	local, remote, err := s.name("open", name)
	if err != nil {
		return nil, err
	}
	f, err := s.s.OpenFile(remote, flag, perm)
	if err != nil {
		return nil, pathError("open", local, err)
	}
	return newFile(f, s, local), nil
}

// Mkdir makes a directory. perm has an effect with the POSIX extensions alone; otherwise the server sets the permissions.
func (s *Share) Mkdir(name string, perm os.FileMode) error {
	local, remote, err := s.name("mkdir", name)
	if err != nil {
		return err
	}
	return pathError("mkdir", local, s.s.Mkdir(remote, perm))
}

// MkdirAll makes a directory and the missing directories above it.
func (s *Share) MkdirAll(path string, perm os.FileMode) error {
	local, remote, err := s.name("mkdir", path)
	if err != nil {
		return err
	}
	return pathError("mkdir", local, s.s.MkdirAll(remote, perm))
}

// Remove removes the named file, symbolic link or empty directory, read-only ones too.
func (s *Share) Remove(name string) error {
	local, remote, err := s.name("remove", name)
	if err != nil {
		return err
	}
	return pathError("remove", local, s.s.Remove(remote))
}

// RemoveAll removes path and everything in it. It returns nil when path does not exist. Symbolic links are
// removed, not followed.
func (s *Share) RemoveAll(path string) error {
	local, remote, err := s.name("remove", path)
	if err != nil {
		return err
	}
	return pathError("remove", local, s.s.RemoveAll(remote))
}

// Rename moves oldpath to newpath and replaces a file of that name.
func (s *Share) Rename(oldpath, newpath string) error {
	from, remoteFrom, err := s.name("rename from", oldpath)
	if err != nil {
		return err
	}
	to, remoteTo, err := s.name("rename to", newpath)
	if err != nil {
		return err
	}
	return linkError("rename", from, to, s.s.Rename(remoteFrom, remoteTo))
}

// Readlink returns the target of the named symbolic link, with "\" between components.
func (s *Share) Readlink(name string) (string, error) {
	local, remote, err := s.name("readlink", name)
	if err != nil {
		return "", err
	}
	target, err := s.s.Readlink(remote)
	if err != nil {
		return "", pathError("readlink", local, err)
	}
	return s.mapping.inbound(strings.ReplaceAll(target, "/", `\`)), nil
}

// Symlink makes linkpath a symbolic link to target. The server may refuse it: Samba 4.17 does.
func (s *Share) Symlink(target, linkpath string) error {
	local, remote, err := s.name("symlink", linkpath)
	if err != nil {
		return err
	}
	target = normPath(target)
	return linkError("symlink", target, local, s.s.Symlink(s.mapping.outbound(target), remote))
}

// Stat describes the named file, following symbolic links. The result is a *FileStat.
func (s *Share) Stat(name string) (os.FileInfo, error) {
	local, remote, err := s.name("stat", name)
	if err != nil {
		return nil, err
	}
	fi, err := s.s.Stat(remote)
	if err != nil {
		return nil, pathError("stat", local, err)
	}
	return newStat(fi, base(local)), nil
}

// Lstat is Stat without following a symbolic link.
func (s *Share) Lstat(name string) (os.FileInfo, error) {
	local, remote, err := s.name("lstat", name)
	if err != nil {
		return nil, err
	}
	fi, err := s.s.Lstat(remote)
	if err != nil {
		return nil, pathError("lstat", local, err)
	}
	return newStat(fi, base(local)), nil
}

// Statfs queries the space on the named directory's file system, which is taken to be the share's.
func (s *Share) Statfs(name string) (FileFsInfo, error) {
	local, _, err := s.name("statfs", name)
	if err != nil {
		return nil, err
	}
	st, err := s.s.Statfs()
	if err != nil {
		return nil, pathError("statfs", local, err)
	}
	return room{st}, nil
}

// Chmod sets the permissions with the POSIX extensions. Otherwise it marks the named file read-only, or not, by the owner's write bit.
func (s *Share) Chmod(name string, mode os.FileMode) error {
	local, remote, err := s.name("chmod", name)
	if err != nil {
		return err
	}
	return pathError("chmod", local, s.s.Chmod(remote, mode))
}

// Chtimes sets the times of the last access and last write, in steps of 100 ns. See [smb.Share.Chtimes] for zero and early
// times.
func (s *Share) Chtimes(name string, atime time.Time, mtime time.Time) error {
	local, remote, err := s.name("chtimes", name)
	if err != nil {
		return err
	}
	return pathError("chtimes", local, s.s.Chtimes(remote, atime, mtime))
}

// Truncate sets the length of the named file in bytes.
func (s *Share) Truncate(name string, size int64) error {
	local, remote, err := s.name("truncate", name)
	if err != nil {
		return err
	}
	return pathError("truncate", local, s.s.Truncate(remote, size))
}

// ReadFile reads the whole named file.
func (s *Share) ReadFile(filename string) ([]byte, error) {
	local, remote, err := s.name("open", filename)
	if err != nil {
		return nil, err
	}
	b, err := s.s.ReadFile(remote)
	return b, pathError("open", local, err)
}

// WriteFile writes data to the named file; it creates or truncates the file first.
func (s *Share) WriteFile(filename string, data []byte, perm os.FileMode) error {
	local, remote, err := s.name("open", filename)
	if err != nil {
		return err
	}
	return pathError("open", local, s.s.WriteFile(remote, data, perm))
}

// ReadDir reads the named directory, sorted by name. Each entry is a *FileStat.
func (s *Share) ReadDir(dirname string) ([]os.FileInfo, error) {
	local, remote, err := s.name("readdir", dirname)
	if err != nil {
		return nil, err
	}
	list, err := s.s.ReadDir(remote)
	if err != nil {
		return nil, pathError("readdir", local, err)
	}
	infos := make([]os.FileInfo, 0, len(list))
	for _, e := range list {
		fi, err := e.Info()
		if err != nil {
			return nil, pathError("readdir", local, err)
		}
		infos = append(infos, newStat(fi, s.mapping.inbound(fi.Name())))
	}
	return infos, nil
}

// Glob lists the names that match pattern, with "\" between components. The only error is
// ErrBadPattern.
func (s *Share) Glob(pattern string) (matches []string, err error) {
	pattern = normPattern(pattern)
	if _, err := Match(pattern, ""); err != nil {
		return nil, err
	}
	matches, err = s.s.Glob(slashed(pattern))
	if err != nil {
		return nil, ErrBadPattern
	}
	if matches == nil && strings.ContainsAny(pattern, `*?[`) {
		matches = []string{} // as in go-smb2
	}
	for i, m := range matches {
		matches[i] = s.mapping.inbound(strings.ReplaceAll(m, "/", `\`))
	}
	return matches, nil
}

var _ fs.FileInfo = (*FileStat)(nil)
