package smb

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	client "github.com/tarn-go/tarn/smb"
)

// tree is a place to copy from and to: a directory on this machine or on a server. Names in it are
// relative, with "/" between their parts; "." is the place itself. It is safe for
// concurrent use.
type tree interface {
	Lstat(name string) (fs.FileInfo, error)
	ReadDir(name string) ([]fs.DirEntry, error)
	Open(name string) (source, error)
	// ReadWhole reads a file of size bytes, at most wholeFile, and describes it as it was after that. A
	// file that has another size now gives fewer or more bytes. The error matches errChanged when it was
	// written to in between.
	ReadWhole(name string, size int64) ([]byte, fs.FileInfo, error)
	// WriteNew makes a file called name of data, with its time. It may use part, a name that nothing has, and that may be name. The error matches
	// fs.ErrExist when name is taken, and errors.ErrUnsupported when the file cannot be made without others seeing a part of it.
	// When it fails, part may be left.
	WriteNew(part, name string, data []byte, modified time.Time) error
	// CreatePart makes a file to write to, which must not exist; ReopenPart opens one that does. It has the permissions perm here, and on a server with
	// the POSIX extensions.
	CreatePart(name string, perm fs.FileMode) (sink, error)
	ReopenPart(name string) (sink, error)
	// Rewrite opens a file to replace its content; a symbolic link is followed. What else belongs to the file stays: mode and ACL,
	// alternate streams, hard links, creation time.
	Rewrite(name string) (sink, error)
	// Mkdir makes a directory. The error matches fs.ErrExist when the name is taken.
	Mkdir(name string) error
	// RenameNew renames a file. The error matches fs.ErrExist when the name is taken.
	RenameNew(from, to string) error
	Remove(name string) error
	Chtimes(name string, modified time.Time) error
	// label is the name as it is shown.
	label(name string) string
	// fold is the same for two names when they are names of one file.
	fold(name string) string
	// rewind is how many bytes before the end of an unfinished part may be missing.
	rewind() int64
}

// source is a file being read.
type source interface {
	io.ReadSeeker
	io.WriterTo
	io.Closer
	// AllocatedRanges returns the ranges between off and off+n that are no holes, in order. The position is then undefined.
	AllocatedRanges(off, n int64) ([]client.Range, error)
	// WriteRangesTo writes the ranges to the same places of w. When the file ends before, the error is io.ErrUnexpectedEOF.
	WriteRangesTo(w io.WriterAt, ranges []client.Range) (int64, error)
}

// sink is a file being written.
type sink interface {
	io.WriterAt
	io.Closer
	Stat() (fs.FileInfo, error)
	Truncate(size int64) error
	Sync() error
	// SetSparse makes what is not written a hole.
	SetSparse() error
	// AllocatedRanges is that of source.
	AllocatedRanges(off, n int64) ([]client.Range, error)
	// PunchHole makes n bytes from off read as zeros: a hole where the file can have one.
	PunchHole(off, n int64) error
}

// ancestors are the directories that contain one, from the outermost to itself.
type ancestors []client.DirID

// maxDepth bounds the depth of a tree whose server reports no ids.
const maxDepth = 250

// with adds a directory. The error matches client.ErrLoop when the directory contains itself.
func (a ancestors) with(id client.DirID) (ancestors, error) {
	if id != (client.DirID{}) && slices.Contains(a, id) {
		return nil, client.ErrLoop
	}
	if len(a) == maxDepth {
		return nil, fmt.Errorf("%w, or it is nested more than %d directories deep", client.ErrLoop, maxDepth)
	}
	return append(slices.Clip(a), id), nil
}

// changeTime is when anything about a file changed; zero where the file's server does not report it.
func changeTime(info fs.FileInfo) time.Time {
	if st, ok := info.Sys().(*client.FileStat); ok {
		return st.ChangeTime
	}
	return time.Time{}
}

// remote is a directory of a share.
type remote struct {
	share *client.Share
	at    location    // of "."
	umask fs.FileMode // what new files do not permit, with the POSIX extensions
	exact bool        // names are case-sensitive: a target with the POSIX extensions
}

func (r *remote) full(name string) string { return path.Join(r.at.path, name) }

func (r *remote) Lstat(name string) (fs.FileInfo, error)     { return r.share.Lstat(r.full(name)) }
func (r *remote) ReadDir(name string) ([]fs.DirEntry, error) { return r.share.ReadDir(r.full(name)) }
func (r *remote) Mkdir(name string) error                    { return r.share.Mkdir(r.full(name), 0o777&^r.umask) }
func (r *remote) Remove(name string) error                   { return r.share.Remove(r.full(name)) }
func (r *remote) RenameNew(from, to string) error {
	return r.share.RenameNoReplace(r.full(from), r.full(to))
}

func (r *remote) Open(name string) (source, error) {
	f, err := r.share.Open(r.full(name))
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (r *remote) ReadWhole(name string, _ int64) ([]byte, fs.FileInfo, error) {
	data, info, err := r.share.ReadFileInfo(r.full(name))
	if errors.Is(err, client.ErrChanged) {
		err = errChanged
	}
	return data, info, err
}

// WriteNew needs no part where one WRITE may have all of the data: the whole file is sent in one frame then, so the server makes
// all of it or nothing. On dialect 2.0.2, or with too few credits, it is not one frame: a lost connection can leave an empty file, or
// one without its time, which the repeated copy replaces.
func (r *remote) WriteNew(_, name string, data []byte, modified time.Time) error {
	if len(data) > r.share.Session().Info().MaxWrite {
		return errors.ErrUnsupported
	}
	return r.share.WriteNewFile(r.full(name), data, 0o666&^r.umask, modified)
}

func (r *remote) CreatePart(name string, perm fs.FileMode) (sink, error) {
	return r.open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm&^r.umask)
}

func (r *remote) ReopenPart(name string) (sink, error) { return r.open(name, os.O_RDWR, 0) }
func (r *remote) Rewrite(name string) (sink, error)    { return r.open(name, os.O_RDWR, 0) }

func (r *remote) open(name string, flag int, perm fs.FileMode) (sink, error) {
	f, err := r.share.OpenFile(r.full(name), flag, perm)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (r *remote) Chtimes(name string, modified time.Time) error {
	return r.share.Chtimes(r.full(name), time.Time{}, modified)
}

func (r *remote) label(name string) string {
	l := r.at
	l.path = r.full(name)
	return l.String()
}

// fold: servers of SMB treat names that differ only in case as equal, unless configured otherwise, or with the POSIX extensions.
func (r *remote) fold(name string) string {
	if r.exact {
		return name
	}
	return foldCase(name)
}

func foldCase(name string) string { return strings.ToLower(strings.ToUpper(name)) }

// rewind: the server may process the writes that are in flight in any order, so a part that ends at n
// may have holes in the bytes before n that one call keeps in flight.
func (r *remote) rewind() int64 { return client.DefaultPipeline }

// plainName reports whether a name that a directory lists is one name and no path: a
// server could send any name.
func plainName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\\\x00") && filepath.IsLocal(name)
}
