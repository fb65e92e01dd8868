package smb

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
)

// FS is the directory dir of the share as an [fs.FS], which also has the methods
// ReadFile, ReadDir, Stat and Sub of package io/fs. Names in it follow fs.ValidPath.
func (s *Share) FS(dir string) fs.FS { return &shareFS{s, dir} }

type shareFS struct {
	s   *Share
	dir string
}

var (
	_ fs.ReadFileFS = (*shareFS)(nil)
	_ fs.ReadDirFS  = (*shareFS)(nil)
	_ fs.StatFS     = (*shareFS)(nil)
	_ fs.SubFS      = (*shareFS)(nil)
)

// at translates a name in f to a name in the share.
func (f *shareFS) at(op, name string) (string, error) {
	if !fs.ValidPath(name) {
		return "", pathError(op, name, fs.ErrInvalid)
	}
	for i := 0; i < len(name); i++ {
		if name[i] == '\\' { // a separator for the server, an ordinary character for io/fs
			return "", pathError(op, name, fs.ErrInvalid)
		}
	}
	return path.Join(f.dir, name), nil
}

// rename replaces the name in an error by the one that the user gave.
func rename(err error, name string) error {
	if pe, ok := err.(*fs.PathError); ok {
		pe.Path = name
	}
	return err
}

func (f *shareFS) Open(name string) (fs.File, error) {
	full, err := f.at("open", name)
	if err != nil {
		return nil, err
	}
	file, err := f.s.Open(full)
	if err != nil {
		return nil, rename(err, name)
	}
	file.h.name = name
	return file, nil
}

func (f *shareFS) ReadFile(name string) ([]byte, error) {
	full, err := f.at("open", name)
	if err != nil {
		return nil, err
	}
	b, err := f.s.ReadFile(full)
	return b, rename(err, name)
}

func (f *shareFS) ReadDir(name string) ([]fs.DirEntry, error) {
	full, err := f.at("readdir", name)
	if err != nil {
		return nil, err
	}
	list, err := f.s.ReadDir(full)
	return list, rename(err, name)
}

func (f *shareFS) Stat(name string) (fs.FileInfo, error) {
	full, err := f.at("stat", name)
	if err != nil {
		return nil, err
	}
	fi, err := f.s.Stat(full)
	return fi, rename(err, name)
}

func (f *shareFS) Sub(dir string) (fs.FS, error) {
	full, err := f.at("sub", dir)
	if err != nil {
		return nil, err
	}
	return &shareFS{f.s, full}, nil
}

// anyFS is the share for package fs's walkers, with names in the form of the share's methods.
type anyFS struct{ s *Share }

func (f anyFS) Open(name string) (fs.File, error)          { return f.s.Open(name) }
func (f anyFS) ReadDir(name string) ([]fs.DirEntry, error) { return f.s.ReadDir(name) }
func (f anyFS) Stat(name string) (fs.FileInfo, error)      { return f.s.Lstat(name) }

// Glob lists the names that match pattern, whose parts are separated by "/" and follow
// [path.Match]. Directories that the server refuses to list are left out, as [fs.Glob] does; other errors, such as a lost
// connection or an ended context, are returned.
func (s *Share) Glob(pattern string) ([]string, error) {
	g := &globFS{anyFS: anyFS{s}}
	list, err := fs.Glob(g, pattern)
	if err == nil {
		err = g.err
	}
	if err != nil {
		return nil, err
	}
	return list, nil
}

// globFS is anyFS for fs.Glob, which ignores errors: it keeps the first that is not a refusal by the server.
type globFS struct {
	anyFS
	err error
}

func (g *globFS) ReadDir(name string) ([]fs.DirEntry, error) {
	list, err := g.anyFS.ReadDir(name)
	return list, g.keep(err)
}

func (g *globFS) Stat(name string) (fs.FileInfo, error) {
	fi, err := g.anyFS.Stat(name)
	return fi, g.keep(err)
}

func (g *globFS) keep(err error) error {
	// A context that ends while a referral is followed is joined to the refusal that named it.
	ended := errors.Is(err, ErrConnLost) || errors.Is(err, ErrLogin) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	refused := errors.As(err, new(*ResponseError)) || errors.Is(err, ErrName) || errors.Is(err, errLinks)
	if g.err == nil && err != nil && (ended || !refused) {
		g.err = err
	}
	return err
}

// WalkDir walks the tree below root, as [fs.WalkDir] does: in order of names, without following symbolic
// links. The names given to fn are root, "/" and the name below it. A directory that contains itself, by the
// file ids that the server reports, is given to fn with an error and not entered.
func (s *Share) WalkDir(root string, fn fs.WalkDirFunc) error {
	fi, err := s.Lstat(root)
	if err != nil {
		err = fn(root, nil, err)
	} else {
		err = s.walk(root, fs.FileInfoToDirEntry(fi), fn, nil)
	}
	if err == fs.SkipDir || err == fs.SkipAll {
		return nil
	}
	return err
}

var errLoop = errors.New("the directory contains itself")

// diskID is how the server identifies a file: file is unique on its volume. Zero: not known.
type diskID struct{ file, volume uint64 }

// walk visits name and everything below it; above are the ids of the directories that contain it.
func (s *Share) walk(name string, d fs.DirEntry, fn fs.WalkDirFunc, above []diskID) error {
	err := fn(name, d, nil)
	if err != nil || !d.IsDir() {
		if err == fs.SkipDir && d.IsDir() {
			err = nil
		}
		return err
	}
	var list []fs.DirEntry
	if len(above) == maxDepth {
		err = pathError("readdir", name, ErrTooMany)
	} else {
		list, err = s.readDir(name, func(h *handle) error {
			id := idOf(h, d)
			if id != (diskID{}) && slices.Contains(above, id) {
				return errLoop
			}
			above = append(above, id)
			return nil
		})
	}
	if err != nil {
		if err = fn(name, d, err); err != nil {
			if err == fs.SkipDir {
				err = nil
			}
			return err
		}
	}
	for _, e := range list {
		if err := s.walk(path.Join(name, e.Name()), e, fn, above); err != nil {
			if err == fs.SkipDir {
				break
			}
			return err
		}
	}
	return nil
}

// idOf is the id of the open directory d: the server reports it when a directory is opened, or in the listing
// that d is from.
func idOf(h *handle, d fs.DirEntry) diskID {
	if h.grants.HasDiskID {
		return diskID{file: h.grants.DiskFileID, volume: h.grants.VolumeID}
	}
	if i, ok := d.(*info); ok {
		return diskID{file: i.st.FileID}
	}
	return diskID{}
}
