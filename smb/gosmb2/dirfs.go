package smb2

import (
	"io/fs"
	"path"
	"strings"
)

// DirFS is the directory dirname of the share as an fs.FS, which also has the methods
// ReadFile, ReadDir, Stat, Glob and Sub of package io/fs. Names in it follow fs.ValidPath.
func (s *Share) DirFS(dirname string) fs.FS {
	return &dirFS{share: s, root: strings.Trim(slashed(normPath(dirname)), "/")}
}

type dirFS struct {
	share *Share
	root  string // with "/"; "" is the share's root
}

// at translates a name in the fs.FS to a name in the share.
func (f *dirFS) at(op, name string) (string, error) {
	if !fs.ValidPath(name) || strings.Contains(name, `\`) {
		return "", &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	full := path.Join(f.root, name)
	if full == "." {
		full = ""
	}
	return strings.ReplaceAll(full, "/", `\`), nil
}

// named replaces the name in err by the one in the fs.FS.
func named(err error, name string) error {
	if pe, ok := err.(*fs.PathError); ok {
		pe.Path = name
	}
	return err
}

func (f *dirFS) Open(name string) (fs.File, error) {
	full, err := f.at("open", name)
	if err != nil {
		return nil, err
	}
	file, err := f.share.Open(full)
	if err != nil {
		return nil, named(err, name)
	}
	return &dirFile{file, name}, nil
}

func (f *dirFS) Stat(name string) (fs.FileInfo, error) {
	full, err := f.at("stat", name)
	if err != nil {
		return nil, err
	}
	fi, err := f.share.Stat(full)
	return renamed(fi, name), named(err, name)
}

// renamed gives the share's root the name "." that fs.FS demands.
func renamed(fi fs.FileInfo, name string) fs.FileInfo {
	if st, ok := fi.(*FileStat); ok {
		st.FileName = path.Base(name)
	}
	return fi
}

func (f *dirFS) ReadFile(name string) ([]byte, error) {
	full, err := f.at("open", name)
	if err != nil {
		return nil, err
	}
	b, err := f.share.ReadFile(full)
	return b, named(err, name)
}

func (f *dirFS) ReadDir(name string) ([]fs.DirEntry, error) {
	full, err := f.at("readdir", name)
	if err != nil {
		return nil, err
	}
	list, err := f.share.ReadDir(full)
	if err != nil {
		return nil, named(err, name)
	}
	return entries(list), nil
}

func entries(list []fs.FileInfo) []fs.DirEntry {
	out := make([]fs.DirEntry, len(list))
	for i, fi := range list {
		out[i] = fs.FileInfoToDirEntry(fi)
	}
	return out
}

func (f *dirFS) Glob(pattern string) ([]string, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, err
	}
	return fs.Glob(withoutGlob{f}, pattern)
}

// withoutGlob hides the method Glob, which fs.Glob would call.
type withoutGlob struct{ f *dirFS }

func (w withoutGlob) Open(name string) (fs.File, error)          { return w.f.Open(name) }
func (w withoutGlob) ReadDir(name string) ([]fs.DirEntry, error) { return w.f.ReadDir(name) }
func (w withoutGlob) Stat(name string) (fs.FileInfo, error)      { return w.f.Stat(name) }

func (f *dirFS) Sub(dir string) (fs.FS, error) {
	full, err := f.at("sub", dir)
	if err != nil {
		return nil, err
	}
	return f.share.DirFS(full), nil
}

// dirFile is a File with the methods and errors that fs.FS demands.
type dirFile struct {
	*File
	path string
}

func (f *dirFile) Stat() (fs.FileInfo, error) {
	fi, err := f.File.Stat()
	return renamed(fi, f.path), err
}

func (f *dirFile) ReadDir(n int) ([]fs.DirEntry, error) {
	list, err := f.Readdir(n)
	return entries(list), err
}
