package webdav

import (
	"context"
	"io/fs"
	"os"
	"path"

	"golang.org/x/net/webdav"

	"github.com/tarn-go/tarn/smb/internal/oserr"
)

// described is what one PROPFIND knows about files. webdav.Handler asks for each entry of a directory that it has listed by Stat,
// and opens it once or twice to describe it: these would be up to nine round trips an entry. Handler stores it in the request's context.
type described struct {
	listed map[string]fs.FileInfo // entries of listed directories that Stat was not called for
	name   string                 // that Stat was called for last
	info   fs.FileInfo            // of name
}

type describedKey struct{}

// describing is ctx for one PROPFIND.
func describing(ctx context.Context) context.Context {
	return context.WithValue(ctx, describedKey{}, &described{listed: map[string]fs.FileInfo{}})
}

// describedIn is nil if ctx is of another request.
func describedIn(ctx context.Context) *described {
	d, _ := ctx.Value(describedKey{}).(*described)
	return d
}

// stat is Stat for an entry of a directory that was listed.
func (d *described) stat(name string) (fs.FileInfo, bool) {
	name = path.Clean("/" + name)
	fi, ok := d.listed[name]
	if ok {
		delete(d.listed, name)
		d.name, d.info = name, fi
	}
	return fi, ok
}

// describedFile is a file that PROPFIND describes. It is opened when that needs more than is known.
type describedFile struct {
	webdav.File // nil until it is opened
	files       *fileSystem
	ctx         context.Context
	name        string
	info        fs.FileInfo
}

// open returns the file that Stat was called for last, unless name is another.
func (d *described) open(ctx context.Context, f *fileSystem, name string) (webdav.File, bool) {
	if name = path.Clean("/" + name); name != d.name {
		return nil, false
	}
	return &describedFile{files: f, ctx: ctx, name: name, info: d.info}, true
}

func (f *describedFile) Stat() (fs.FileInfo, error) { return f.info, nil }

func (f *describedFile) Close() error {
	if f.File == nil {
		return nil
	}
	return f.File.Close()
}

// Readdir stores what it returns, except symbolic links: Stat follows them.
func (f *describedFile) Readdir(n int) ([]fs.FileInfo, error) {
	if n > 0 || f.File != nil {
		if err := f.open(); err != nil {
			return nil, err
		}
		return f.File.Readdir(n)
	}
	entries, err := f.files.share.WithContext(f.ctx).ReadDir(f.name)
	list, known := make([]fs.FileInfo, 0, len(entries)), describedIn(f.ctx).listed
	for _, e := range entries {
		fi, _ := e.Info() // which is known
		list = append(list, info{fi})
		if fi.Mode()&fs.ModeSymlink == 0 {
			known[path.Join(f.name, fi.Name())] = info{fi}
		}
	}
	return list, oserr.From(err)
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
