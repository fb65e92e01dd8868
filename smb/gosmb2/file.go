package smb2

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
	"sync/atomic"

	"github.com/tarn-go/tarn/smb"
)

// File is an open file or directory, like os.File. Its methods may be called from any goroutine; those that
// use the file's position run one at a time.
type File struct {
	f       *smb.File
	share   *Share
	name    string
	cleanup runtime.Cleanup

	id atomic.Uint64 // of the file on its volume; zero: not queried yet, or the server has none
}

var (
	_ io.ReaderAt        = (*File)(nil)
	_ io.WriterAt        = (*File)(nil)
	_ io.ReadWriteSeeker = (*File)(nil)
	_ io.ReaderFrom      = (*File)(nil)
	_ io.WriterTo        = (*File)(nil)
)

// newFile takes ownership of f. As in go-smb2, a File that becomes unreachable is closed.
func newFile(f *smb.File, share *Share, name string) *File {
	file := &File{f: f, share: share, name: name}
	// Close waits for the server; the runtime's goroutine for cleanups must not.
	file.cleanup = runtime.AddCleanup(file, func(f *smb.File) { go f.Close() }, f)
	return file
}

// SMB returns the file of package smb. It is closed with f.
func (f *File) SMB() *smb.File { return f.f }

// Name is the name given to Open, with "\" between components.
func (f *File) Name() string { return f.name }

// Close closes the file. It is closed whatever the error.
func (f *File) Close() error {
	if f == nil {
		return os.ErrInvalid
	}
	f.cleanup.Stop()
	return pathError("close", f.name, f.f.Close())
}

// Read reads up to len(b) bytes at the file's position and advances it.
func (f *File) Read(b []byte) (n int, err error) {
	n, err = f.f.Read(b)
	return n, pathError("read", f.name, err)
}

// ReadAt reads len(b) bytes at offset off; at the end of the file the error is io.EOF.
func (f *File) ReadAt(b []byte, off int64) (n int, err error) {
	n, err = f.f.ReadAt(b, off)
	return n, pathError("read", f.name, err)
}

// Write writes b at the file's position and advances it.
func (f *File) Write(b []byte) (n int, err error) {
	n, err = f.f.Write(b)
	return n, pathError("write", f.name, err)
}

// WriteAt writes b at offset off.
func (f *File) WriteAt(b []byte, off int64) (n int, err error) {
	n, err = f.f.WriteAt(b, off)
	return n, pathError("write", f.name, err)
}

// WriteString is Write of s.
func (f *File) WriteString(s string) (n int, err error) {
	n, err = f.f.WriteString(s)
	return n, pathError("write", f.name, err)
}

// ReadFrom reads r to its end and writes at the file's position, with requests in flight while r is read. An
// error of r is returned as it is. When r is a *File of the same share and the server can copy, the server
// copies.
func (f *File) ReadFrom(r io.Reader) (n int64, err error) {
	if src, ok := r.(*File); ok {
		if n, err, ok = src.copyTo(f); ok {
			return n, err
		}
	}
	from := &source{r: r}
	n, err = f.f.ReadFrom(from)
	if err != nil && err == from.err {
		return n, err
	}
	return n, pathError("write", f.name, err)
}

// source remembers the error of a reader, to distinguish it from the file's.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// WriteTo writes the file from its position to its end to w, with requests in flight ahead of w. An error of
// w is returned as it is. When w is a *File of the same share and the server can copy, the server copies.
func (f *File) WriteTo(w io.Writer) (n int64, err error) {
	if dst, ok := w.(*File); ok {
		if n, err, ok = f.copyTo(dst); ok {
			return n, err
		}
	}
	to := &sink{w: w}
	n, err = f.f.WriteTo(to)
	if err != nil && err == to.err {
		return n, err
	}
	return n, pathError("read", f.name, err)
}

// sink remembers the error of a writer, to distinguish it from the file's.
type sink struct {
	w   io.Writer
	err error
}

func (s *sink) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if err != nil {
		s.err = err
	}
	return n, err
}

// copyTo has the server copy from f's position to its end, to dst's position, and advances both. done is
// false, and nothing has changed, for another share, for one and the same file, and when the server cannot
// copy.
func (f *File) copyTo(dst *File) (n int64, err error, done bool) {
	if f.share.s.Session() != dst.share.s.Session() || f == dst {
		return 0, nil, false
	}
	fail := func(err error) (int64, error, bool) {
		return n, &os.LinkError{Op: "copy", Old: f.name, New: dst.name, Err: translate(err)}, true
	}
	from, err := f.f.Seek(0, io.SeekCurrent)
	if err != nil {
		return fail(err)
	}
	to, err := dst.f.Seek(0, io.SeekCurrent)
	if err != nil {
		return fail(err)
	}
	info, err := f.f.Stat()
	if err != nil {
		return fail(err)
	}
	n, err = dst.f.CopyRange(f.f, from, to, max(info.Size()-from, 0))
	if n == 0 && errors.Is(err, errors.ErrUnsupported) {
		return 0, nil, false
	}
	if n > 0 {
		_, ferr := f.f.Seek(n, io.SeekCurrent)
		_, terr := dst.f.Seek(n, io.SeekCurrent)
		err = errors.Join(err, ferr, terr)
	}
	if err != nil {
		return fail(err)
	}
	return n, nil, true
}

// Seek sets the position of the next Read or Write.
func (f *File) Seek(offset int64, whence int) (ret int64, err error) {
	ret, err = f.f.Seek(offset, whence)
	return ret, pathError("seek", f.name, err)
}

// Stat describes the open file. The result is a *FileStat.
func (f *File) Stat() (os.FileInfo, error) {
	fi, err := f.f.Stat()
	if err != nil {
		return nil, pathError("stat", f.name, err)
	}
	st := newStat(fi, base(f.name))
	if f.id.Load() == 0 {
		id, err := f.f.ID()
		if refused := (*smb.ResponseError)(nil); err != nil && !errors.As(err, &refused) {
			return nil, pathError("stat", f.name, err)
		}
		f.id.Store(id)
	}
	st.FileId = f.id.Load()
	return st, nil
}

// Statfs queries the space on the file's file system, which is taken to be the share's.
func (f *File) Statfs() (FileFsInfo, error) {
	st, err := f.share.s.Statfs()
	if err != nil {
		return nil, pathError("statfs", f.name, err)
	}
	return room{st}, nil
}

// Sync asks the server to write the file's data to stable storage.
func (f *File) Sync() (err error) { return pathError("sync", f.name, f.f.Sync()) }

// Truncate sets the file's length in bytes.
func (f *File) Truncate(size int64) error {
	return pathError("truncate", f.name, f.f.Truncate(size))
}

// Chmod sets the permissions with the POSIX extensions. Otherwise it marks the file read-only, or not, by the owner's write bit.
func (f *File) Chmod(mode os.FileMode) error { return pathError("chmod", f.name, f.f.Chmod(mode)) }

// Readdir reads the directory's next n entries, with io.EOF at its end; all remaining ones when n <= 0. Each
// is a *FileStat.
func (f *File) Readdir(n int) (fi []os.FileInfo, err error) {
	list, err := f.f.ReadDir(n)
	fi = make([]os.FileInfo, 0, len(list))
	for _, e := range list {
		info, ierr := e.Info()
		if ierr != nil {
			return fi, pathError("readdir", f.name, ierr)
		}
		fi = append(fi, newStat(info, f.share.mapping.inbound(info.Name())))
	}
	return fi, pathError("readdir", f.name, err)
}

// Readdirnames is the names of Readdir.
func (f *File) Readdirnames(n int) (names []string, err error) {
	fi, err := f.Readdir(n)
	names = make([]string, len(fi))
	for i, st := range fi {
		names[i] = st.Name()
	}
	return names, err
}

var _ fs.File = (*File)(nil)
