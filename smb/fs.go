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
// file ids that the server reports, is given to fn with an error that matches ErrLoop and not entered.
// The directories on the way to the one that is visited count together for Limits.MaxListing.
func (s *Share) WalkDir(root string, fn fs.WalkDirFunc) error {
	fi, err := s.Lstat(root)
	if err != nil {
		err = fn(root, nil, err)
	} else {
		w := walk{s: s, fn: fn}
		err = w.visit(root, fs.FileInfoToDirEntry(fi))
	}
	if err == fs.SkipDir || err == fs.SkipAll {
		return nil
	}
	return err
}

// walk is one WalkDir.
type walk struct {
	s     *Share
	fn    fs.WalkDirFunc
	above []DirID   // of the directories that contain the one that is visited
	held  heldBytes // entries of these
}

// visit visits name and everything below it.
func (w *walk) visit(name string, d fs.DirEntry) error {
	err := w.fn(name, d, nil)
	if err != nil || !d.IsDir() {
		if err == fs.SkipDir && d.IsDir() {
			err = nil
		}
		return err
	}
	depth, before := len(w.above), w.held
	defer func() { w.above, w.held = w.above[:depth], before }()
	var list []fs.DirEntry
	if depth == maxDepth {
		err = pathError("readdir", name, ErrTooMany)
	} else {
		list, err = w.s.readDir(name, &w.held, func(l *listing) error {
			id := l.dirID()
			if i, ok := d.(*info); ok && id == (DirID{}) {
				id.File = i.id
			}
			if id != (DirID{}) && slices.Contains(w.above, id) {
				return ErrLoop
			}
			w.above = append(w.above, id)
			return nil
		})
	}
	if err != nil {
		if err = w.fn(name, d, err); err != nil {
			if err == fs.SkipDir {
				err = nil
			}
			return err
		}
	}
	for _, e := range list {
		if err := w.visit(path.Join(name, e.Name()), e); err != nil {
			if err == fs.SkipDir {
				break
			}
			return err
		}
	}
	return nil
}
