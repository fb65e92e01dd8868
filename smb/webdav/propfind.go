package webdav

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"sync"
	"time"

	"golang.org/x/net/webdav"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/oserr"
)

// described is what one PROPFIND knows about files. webdav.Handler asks for each entry of a directory that it has listed by Stat,
// and opens it once or twice to describe it: these would be up to nine round trips an entry. Handler stores it in the request's context.
// A file system that consists of several shares passes that to each of them.
type described struct {
	mu     sync.Mutex
	listed map[place]fs.FileInfo // entries of listed directories that Stat was not called for
	last   place                 // that Stat was called for last
	info   fs.FileInfo           // of last
}

// place is a name in a share, from "/" on.
type place struct {
	share *smb.Share
	name  string
}

func (f *fileSystem) at(name string) place { return place{f.share, path.Clean("/" + name)} }

type describedKey struct{}

// describing is ctx for one PROPFIND.
func describing(ctx context.Context) context.Context {
	return context.WithValue(ctx, describedKey{}, &described{listed: map[place]fs.FileInfo{}})
}

// describedIn is nil if ctx is of another request.
func describedIn(ctx context.Context) *described {
	d, _ := ctx.Value(describedKey{}).(*described)
	return d
}

// stat is Stat for an entry of a directory that was listed.
func (d *described) stat(p place) (fs.FileInfo, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fi, ok := d.listed[p]
	if ok {
		delete(d.listed, p)
		d.last, d.info = p, fi
	}
	return fi, ok
}

// note stores the result of Stat.
func (d *described) note(p place, fi fs.FileInfo) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last, d.info = p, fi
}

// add stores what a directory lists.
func (d *described) add(p place, fi fs.FileInfo) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.listed[p] = fi
}

// open returns the file that Stat was called for last, unless p is another.
func (d *described) open(ctx context.Context, f *fileSystem, p place) (webdav.File, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p != d.last {
		return nil, false
	}
	return &describedFile{files: f, ctx: ctx, name: p.name, info: d.info}, true
}

// describedFile is a file that PROPFIND describes. It is opened when that needs more than is known.
type describedFile struct {
	webdav.File // nil until it is opened
	files       *fileSystem
	ctx         context.Context
	name        string
	info        fs.FileInfo
}

func (f *describedFile) Stat() (fs.FileInfo, error) { return f.info, nil }

func (f *describedFile) Close() error {
	if f.File == nil {
		return nil
	}
	return f.File.Close()
}

// Readdir stores what it returns, except what a server follows or opens as something else, such as symbolic links and mount points:
// Stat says what that is. A directory that may not be read has no entries: behind the directory itself, which was described, the
// handler could only write its error into the answer.
func (f *describedFile) Readdir(n int) ([]fs.FileInfo, error) {
	if n > 0 || f.File != nil {
		if err := f.open(); err != nil {
			return nil, err
		}
		return f.File.Readdir(n)
	}
	entries, err := f.list()
	if errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	list, known := make([]fs.FileInfo, 0, len(entries)), describedIn(f.ctx)
	for _, e := range entries {
		fi, _ := e.Info() // which is known
		list = append(list, info{fi})
		if t := fi.Mode().Type(); t == 0 || t == fs.ModeDir {
			known.add(f.files.at(path.Join(f.name, fi.Name())), info{fi})
		}
	}
	return list, oserr.From(err)
}

// list reads the directory, and gives up when the server sends nothing for stallTimeout.
func (f *describedFile) list() (entries []fs.DirEntry, err error) {
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	timer := time.AfterFunc(stallTimeout, cancel)
	defer timer.Stop()
	for e, failed := range f.files.share.WithContext(ctx).Entries(f.name) {
		timer.Reset(stallTimeout)
		if err = failed; err == nil {
			entries = append(entries, e)
		}
	}
	return entries, err
}

func (f *describedFile) Read(p []byte) (int, error) {
	if err := f.open(); err != nil {
		return 0, err
	}
	return f.File.Read(p)
}

func (f *describedFile) Seek(offset int64, whence int) (int64, error) {
	if err := f.open(); err != nil {
		return 0, err
	}
	return f.File.Seek(offset, whence)
}

func (f *describedFile) Write(p []byte) (int, error) {
	if err := f.open(); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

func (f *describedFile) open() (err error) {
	if f.File == nil {
		var opened *file
		if opened, err = f.files.open(f.ctx, f.name, os.O_RDONLY, 0); err == nil {
			f.File = opened
		}
	}
	return err
}
