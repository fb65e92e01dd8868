package smb

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// local is a directory on this machine. No name in it, also none that a server chose, leads
// out of it.
type local struct {
	root *os.Root
	name string // of the directory, for messages

	mu   sync.Mutex
	last *folder // the directory that was used last, kept open for the next file of it
}

func newLocal(root *os.Root, name string) *local { return &local{root: root, name: name} }

// Close closes the directory. Nothing may be in use any more.
func (l *local) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last != nil {
		l.drop(l.last)
		l.last = nil
	}
	return l.root.Close()
}

// folder is an open directory below that of a local. Files are opened by their last name in it: the
// names above it are looked up once for all files of the directory.
type folder struct {
	*os.Root
	name  string // as the tree has it
	users int    // guarded by local.mu; local.last is one
}

// enter opens the directory that name lies in, and returns name's last part. The folder is to be left.
func (l *local) enter(name string) (*folder, string, error) {
	dir, base := path.Split(name)
	dir = path.Clean(dir)
	l.mu.Lock()
	if f := l.last; f != nil && f.name == dir {
		f.users++
		l.mu.Unlock()
		return f, base, nil
	}
	l.mu.Unlock()
	root, err := l.root.OpenRoot(filepath.FromSlash(dir))
	if err != nil {
		return nil, "", err
	}
	f := &folder{Root: root, name: dir, users: 2}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last != nil {
		l.drop(l.last)
	}
	l.last = f
	return f, base, nil
}

func (l *local) leave(f *folder) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(f)
}

// drop ends one use of a folder. The caller holds mu.
func (l *local) drop(f *folder) {
	if f.users--; f.users == 0 {
		f.Close()
	}
}

func (l *local) Lstat(name string) (fs.FileInfo, error) {
	return l.root.Lstat(filepath.FromSlash(name))
}
func (l *local) Mkdir(name string) error  { return l.root.Mkdir(filepath.FromSlash(name), 0o777) }
func (l *local) Remove(name string) error { return l.root.Remove(filepath.FromSlash(name)) }

func (l *local) ReadDir(name string) ([]fs.DirEntry, error) {
	f, err := l.root.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadDir(-1)
}

// RenameNew renames within a directory: parts are in the folders of their files.
func (l *local) RenameNew(from, to string) error {
	dir, base, err := l.enter(from)
	if err != nil {
		return err
	}
	defer l.leave(dir)
	return renameNew(dir.Root, base, path.Base(to))
}

func renameNew(dir *os.Root, from, to string) error {
	if _, err := dir.Lstat(to); err == nil {
		return fs.ErrExist
	}
	return dir.Rename(from, to)
}

func (l *local) Open(name string) (source, error) {
	f, err := l.open(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	return localFile{f}, nil
}

func (l *local) open(name string, flag int, perm fs.FileMode) (*os.File, error) {
	dir, base, err := l.enter(name)
	if err != nil {
		return nil, err
	}
	defer l.leave(dir)
	return dir.OpenFile(base, flag, perm)
}

func (l *local) ReadWhole(name string, size int64) ([]byte, fs.FileInfo, error) {
	f, err := l.open(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	data := make([]byte, size+1) // one more, to see that the file has grown
	n, err := io.ReadAtLeast(f, data, int(max(size, 1)))
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, nil, err
	}
	info, err := f.Stat()
	return data[:n], info, err
}

func (l *local) WriteNew(part, name string, data []byte, modified time.Time) error {
	dir, base, err := l.enter(part)
	if err != nil {
		return err
	}
	defer l.leave(dir)
	perm := fs.FileMode(0o666)
	if part == name {
		perm = privatePart
	}
	f, err := dir.OpenFile(base, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := dir.Chtimes(base, time.Time{}, modified); err != nil {
		return err
	}
	if part == name {
		return nil
	}
	return renameNew(dir.Root, base, path.Base(name))
}

// privatePart are the permissions of a part of a file that is there: who may not read that may not read its new content.
const privatePart = 0o600

func (l *local) CreatePart(name string, perm fs.FileMode) (sink, error) {
	return l.openPart(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
}

func (l *local) ReopenPart(name string) (sink, error) {
	info, err := l.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: l.label(name), Err: errors.New("not a regular file")}
	}
	return l.openPart(name, os.O_RDWR, 0)
}

// Rewrite does not open what is no file: opening a pipe could wait for ever.
func (l *local) Rewrite(name string) (sink, error) {
	info, err := l.root.Stat(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: l.label(name), Err: errors.New("exists and is not a regular file")}
	}
	return l.openPart(name, os.O_WRONLY, 0)
}

func (l *local) openPart(name string, flag int, perm fs.FileMode) (sink, error) {
	f, err := l.open(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return localFile{f}, nil
}

func (l *local) Chtimes(name string, modified time.Time) error {
	dir, base, err := l.enter(name)
	if err != nil {
		return err
	}
	defer l.leave(dir)
	return dir.Chtimes(base, time.Time{}, modified)
}

func (l *local) label(name string) string { return filepath.Join(l.name, filepath.FromSlash(name)) }

// fold: file systems of macOS and Windows treat names that differ only in case as equal.
func (l *local) fold(name string) string {
	if runtime.GOOS == "darwin" || runtime.GOOS == "windows" {
		return foldCase(name)
	}
	return name
}

func (l *local) rewind() int64 { return 0 }
