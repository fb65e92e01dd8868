// Package webdav makes a webdav.FileSystem (golang.org/x/net/webdav) from a share of package smb, for a
// WebDAV server whose files are on an SMB server:
//
//	share, err := session.Mount(ctx, "photos")
//	...
//	http.ListenAndServe("localhost:8080", smbdav.Handler(&webdav.Handler{
//		FileSystem: smbdav.New(share),
//		LockSystem: webdav.NewMemLS(),
//	}))
//
// Each request's context bounds its operations on the SMB server. A PUT fails when the server accepts nothing for a minute,
// or has not accepted the rest in time after the end of the body: a minute, and one more for each MiB in flight. A COPY of a file
// fails after a minute, and a second more for each MiB. Then, and when it is interrupted, the file stays as it was ([Handler]).
// Opening, describing, making and renaming one file or directory may take a minute, and so may each part of a listing for PROPFIND.
package webdav

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"os"
	"path"
	"syscall"
	"time"

	"golang.org/x/net/webdav"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/oserr"
)

// New makes a webdav.FileSystem from share. It borrows share: after Unmount the file system fails. It is safe
// for concurrent use.
func New(share *smb.Share) webdav.FileSystem { return &fileSystem{share} }

type fileSystem struct{ share *smb.Share }

// isRoot reports whether a name is the share's root, which is neither removed nor moved.
func isRoot(name string) bool { return path.Clean("/"+name) == "/" }

func (f *fileSystem) Mkdir(ctx context.Context, name string, perm os.FileMode) error {
	ctx, cancel := context.WithTimeout(ctx, stallTimeout)
	defer cancel()
	return oserr.From(f.share.WithContext(ctx).Mkdir(name, perm))
}

func (f *fileSystem) OpenFile(ctx context.Context, name string, flag int, perm os.FileMode) (webdav.File, error) {
	if d := describedIn(ctx); d != nil && flag == os.O_RDONLY {
		if known, ok := d.open(ctx, f, f.at(name)); ok {
			return known, nil
		}
	}
	opened, err := f.open(ctx, name, flag, perm)
	if err != nil {
		return nil, err
	}
	return opened, nil
}

func (f *fileSystem) open(ctx context.Context, name string, flag int, perm os.FileMode) (*file, error) {
	opening, cancel := context.WithTimeout(ctx, stallTimeout)
	defer cancel()
	opened, err := f.share.WithContext(opening).OpenFile(name, flag, perm)
	if err != nil {
		return nil, oserr.From(err)
	}
	return &file{File: opened.WithContext(ctx), ctx: ctx, emptied: flag&os.O_TRUNC != 0}, nil
}

func (f *fileSystem) RemoveAll(ctx context.Context, name string) error {
	if isRoot(name) {
		return os.ErrInvalid
	}
	return oserr.From(f.share.WithContext(ctx).RemoveAll(name))
}

func (f *fileSystem) Rename(ctx context.Context, oldName, newName string) error {
	if isRoot(oldName) || isRoot(newName) {
		return os.ErrInvalid
	}
	ctx, cancel := context.WithTimeout(ctx, stallTimeout)
	defer cancel()
	return oserr.From(f.share.WithContext(ctx).Rename(oldName, newName))
}

func (f *fileSystem) Stat(ctx context.Context, name string) (os.FileInfo, error) {
	d := describedIn(ctx)
	if d != nil {
		if fi, ok := d.stat(f.at(name)); ok {
			return fi, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, stallTimeout)
	defer cancel()
	fi, err := f.share.WithContext(ctx).Stat(name)
	if err != nil {
		return nil, oserr.From(err)
	}
	if d != nil {
		d.note(f.at(name), info{fi})
	}
	return info{fi}, nil
}

// file is an open file whose FileInfo has a content type.
type file struct {
	*smb.File
	ctx     context.Context // of its request
	emptied bool            // by OpenFile
	upload  *upload         // that f is written for; may be nil
}

// written returns err, the result of writing to f, and stores whether the server has no room.
func (f *file) written(err error) error {
	if f.upload != nil && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)) {
		f.upload.full = true
	}
	return err
}

// WriteTo is that of smb.File, except for COPY, where w is a file. If all of f is copied to a file that was emptied, the server
// copies it where it can: the data does not pass through the client, and holes stay holes. It fails with os.ErrDeadlineExceeded
// after stallTimeout and a second for each MiB of f.
func (f *file) WriteTo(w io.Writer) (int64, error) {
	to, ok := w.(*file)
	if !ok {
		return f.File.WriteTo(w)
	}
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(f.ctx, stallTimeout+time.Duration(fi.Size()>>20)*time.Second)
	defer cancel()
	if to.emptied && f.atStart() && to.atStart() {
		n, err := to.WithContext(ctx).CopyFrom(f.File)
		if !errors.Is(err, smb.ErrUnsupported) {
			_, moved := to.Seek(n, io.SeekStart)
			return n, f.moved(n, cmp.Or(to.written(err), moved))
		}
	}
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, err
	}
	from := f.File.WithContext(ctx)
	if _, err := from.Seek(at, io.SeekStart); err != nil {
		return 0, err
	}
	n, err := from.WriteTo(w)
	return n, f.moved(at+n, err)
}

// moved sets the position of f, and returns err or why it could not.
func (f *file) moved(to int64, err error) error {
	_, failed := f.Seek(to, io.SeekStart)
	return cmp.Or(err, failed)
}

func (f *file) atStart() bool {
	at, err := f.Seek(0, io.SeekCurrent)
	return at == 0 && err == nil
}

// stallTimeout is how long the server may take for one operation of a request, before it accepts more of a PUT, and for what is in
// flight when the body of a PUT has ended. For each MiB that may be in flight then it is a minute more.
const stallTimeout = time.Minute

var errStalled = errors.New("the SMB server accepts no more data")

// ReadFrom is that of smb.File, and fails with os.ErrDeadlineExceeded when the server accepts nothing for stallTimeout, or
// has not accepted everything stallTimeout after the end of r. The context of a PUT ends only when its client gives up.
func (f *file) ReadFrom(r io.Reader) (int64, error) {
	ctx, cancel := context.WithCancelCause(f.ctx)
	defer cancel(nil)
	timer := time.AfterFunc(stallTimeout, func() { cancel(errStalled) })
	defer timer.Stop()
	n, err := f.File.WithContext(ctx).ReadFrom(&timedSource{r: r, timer: timer})
	if err != nil && context.Cause(ctx) == errStalled {
		err = &fs.PathError{Op: "write", Path: f.Name(), Err: fmt.Errorf("%w: %w", os.ErrDeadlineExceeded, errStalled)}
	}
	return n, f.written(err)
}

// Write is that of smb.File, and fails with os.ErrDeadlineExceeded after stallTimeout.
func (f *file) Write(p []byte) (int, error) {
	ctx, cancel := context.WithTimeout(f.ctx, stallTimeout)
	defer cancel()
	n, err := f.File.WithContext(ctx).Write(p)
	return n, f.written(err)
}

// timedSource stops a timer while it waits for its reader.
type timedSource struct {
	r     io.Reader
	timer *time.Timer
	read  int64
}

func (s *timedSource) Read(p []byte) (int, error) {
	s.timer.Stop()
	n, err := s.r.Read(p)
	s.read += int64(n)
	wait := stallTimeout
	if err != nil {
		wait += stallTimeout * time.Duration(min(s.read, smb.DefaultPipeline)>>20)
	}
	s.timer.Reset(wait)
	return n, err
}

func (f *file) Stat() (fs.FileInfo, error) {
	ctx, cancel := context.WithTimeout(f.ctx, stallTimeout)
	defer cancel()
	fi, err := f.File.WithContext(ctx).Stat()
	if err != nil {
		return nil, oserr.From(err)
	}
	return info{fi}, nil
}

func (f *file) Readdir(n int) ([]fs.FileInfo, error) {
	list, err := f.File.Readdir(n)
	for i, fi := range list {
		list[i] = info{fi}
	}
	return list, oserr.From(err)
}

// info derives its content type from its name. Without it the handler would open and read each file of a
// directory that it lists.
type info struct{ fs.FileInfo }

var _ webdav.ContentTyper = info{}

func (i info) ContentType(context.Context) (string, error) {
	if t := mime.TypeByExtension(path.Ext(i.Name())); t != "" {
		return t, nil
	}
	return "application/octet-stream", nil
}
