package smb

import (
	"io"
	"io/fs"
)

// readDir returns up to n entries of a directory; all remaining ones when n <= 0.
func (f *File) readDir(n int) ([]*info, error) {
	ctx, cancel := f.h.m.s.bounded(f.ctx)
	defer cancel()
	h := f.h
	if !h.isDir {
		return nil, errNotDirectory
	}
	if err := h.lockPosition(ctx); err != nil {
		return nil, err
	}
	defer h.unlockPosition()
	if h.dir == nil {
		h.dir = newListing(h, h.m.entryClass())
	}
	h.enlist()
	defer func() {
		if h.dir.cl == nil { // the listing has ended or failed and holds no reply
			h.delist()
		}
	}()
	var list []*info
	var held heldBytes
	for n <= 0 || len(list) < n {
		e, err := h.dir.next(ctx)
		if err == io.EOF {
			if n > 0 && len(list) == 0 {
				return nil, io.EOF
			}
			break
		}
		if err == nil {
			err = held.add(h.m.s, e.name)
		}
		if err != nil {
			return list, err
		}
		list = append(list, e)
	}
	return list, nil
}

// ReadDir reads the directory's next entries, as [os.File.ReadDir] does: up to n, with io.EOF at the end; all
// of them when n <= 0, within the limits of [Share.ReadDir]. Seek(0, io.SeekStart) starts again.
func (f *File) ReadDir(n int) ([]fs.DirEntry, error) {
	list, err := f.readDir(n)
	out := make([]fs.DirEntry, len(list))
	for i, e := range list {
		out[i] = e
	}
	return out, f.wrap("readdir", err)
}

// Readdir is ReadDir with the result type of [os.File.Readdir].
func (f *File) Readdir(n int) ([]fs.FileInfo, error) {
	list, err := f.readDir(n)
	out := make([]fs.FileInfo, len(list))
	for i, e := range list {
		out[i] = e
	}
	return out, f.wrap("readdir", err)
}

// Readdirnames is ReadDir for the names only.
func (f *File) Readdirnames(n int) ([]string, error) {
	list, err := f.readDir(n)
	out := make([]string, len(list))
	for i, e := range list {
		out[i] = e.Name()
	}
	return out, f.wrap("readdir", err)
}
