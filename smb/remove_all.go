package smb

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"sync/atomic"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

// RemoveAll removes the named file or directory and everything in it, with many requests in flight. It returns nil when it does not
// exist. Symbolic links are removed, not followed. It continues after an entry that cannot be removed, unless the share's context has
// ended or the server cannot be reached again. It returns one such error, or the one that ended it. It fails with ErrTooMany when it
// would have to remember more than Limits.MaxEntries entries, or when directories are nested more than 2,048 deep.
func (s *Share) RemoveAll(name string) error {
	return s.RemoveAllFunc(name, func(error) {})
}

// RemoveAllFunc is RemoveAll, and calls failed with the error of each file that cannot be removed, and of each directory that cannot be
// read, or removed although everything in it was. It calls failed in its caller's goroutine. After the end of the context, and when the
// server cannot be reached again, it calls failed once more at most.
func (s *Share) RemoveAllFunc(name string, failed func(error)) error {
	if remote, err := s.remote(name); err != nil || remote == "" {
		err = pathError("removeall", name, ErrName)
		failed(err)
		return err
	}
	r := removal{s: s, failed: failed, done: make(chan func(), window)}
	return r.run(name)
}

// maxDepth bounds how deep directories are nested: a path has at most 32,767 characters (MS-FSCC 2.1.5), and
// file systems of servers allow no more than 4,096 bytes or so.
const maxDepth = 2048

// maxListers is how many directories one RemoveAll lists at a time.
const maxListers = 16

// removal is one RemoveAll. Its goroutine decides what is done next, and up to window others make the requests. Of a tree it
// knows the entries that it has listed and not removed, Limits.MaxEntries at most. It lists another directory only when it has tried
// to remove all that it knows, so that these are directories.
type removal struct {
	s       *Share
	failed  func(error)
	done    chan func() // what follows from a request that has ended
	busy    int         // requests, or listings, that have not ended
	listing int         // of these, listings
	crowded bool        // listings had too many entries together: from then on each runs alone
	held    atomic.Int64
	listed  []*directory // those with entries that are to be removed
	full    []*directory // those that are to be listed
	end     error        // not nil: why nothing more is begun
}

// directory is a directory that is not empty, from its listing on; before, any entry.
type directory struct {
	name  string
	in    *directory // nil: the root of the removal
	depth int
	names []string // entries that are to be removed
	left  int      // entries that have not been removed, and may be
	err   error    // of the first entry that could not be removed, or of the listing
}

func (r *removal) run(name string) error {
	root := &directory{name: name}
	r.tried(root, r.s.remove(name)) // which is all for a file
	for {
		for r.end == nil && r.busy < window && r.next() {
			r.begin()
		}
		if r.busy == 0 {
			break
		}
		follows := <-r.done
		r.busy--
		follows()
	}
	return cmp.Or(r.end, root.err)
}

// next reports whether there is something that may begin now.
func (r *removal) next() bool {
	return len(r.listed) > 0 || len(r.full) > 0 && (r.busy == 0 || r.listing < maxListers && !r.crowded)
}

// begin begins the removal of one entry or, when there is none, the listing of one directory. The last ones come first, so that few
// are known at a time.
func (r *removal) begin() {
	if len(r.listed) > 0 {
		r.beginRemoval()
	} else {
		r.beginListing()
	}
}

func (r *removal) beginRemoval() {
	last := len(r.listed) - 1
	d := r.listed[last]
	e := &directory{name: path.Join(d.name, d.names[0]), in: d, depth: d.depth + 1}
	if d.names = d.names[1:]; len(d.names) == 0 {
		r.listed = r.listed[:last]
	}
	r.do(func() func() {
		err := r.s.remove(e.name)
		return func() { r.tried(e, err) }
	})
}

func (r *removal) beginListing() {
	last := len(r.full) - 1
	d, alone := r.full[last], r.crowded
	r.full = r.full[:last]
	r.listing++
	r.do(func() func() {
		names, err := r.list(d.name)
		return func() {
			r.listing--
			if errors.Is(err, ErrTooMany) && !alone {
				r.crowded = true
				r.held.Add(int64(-len(names)))
				r.full = append(r.full, d)
				return
			}
			r.wasListed(d, names, err)
		}
	})
}

// do makes requests in another goroutine. The function that these return runs in the removal's.
func (r *removal) do(requests func() (follows func())) {
	r.busy++
	go func() { r.done <- requests() }()
}

// list returns the names in a directory. All are read first: servers lose their position in a directory that changes.
func (r *removal) list(name string) (names []string, err error) {
	for e, err := range r.s.Entries(name) {
		if err != nil {
			return names, err
		}
		if r.held.Add(1) > int64(r.s.m.s.cfg.Limits.MaxEntries) {
			r.held.Add(-1)
			return names, pathError("readdir", name, ErrTooMany)
		}
		names = append(names, e.Name())
	}
	return names, nil
}

// wasListed goes on with a directory that was listed, as far as it could be.
func (r *removal) wasListed(d *directory, names []string, err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.fail(d, err)
	}
	if d.names, d.left = names, len(names); d.left == 0 {
		r.removeEmptied(d)
		return
	}
	r.listed = append(r.listed, d)
}

// tried goes on with an entry after the first attempt to remove it.
func (r *removal) tried(e *directory, err error) {
	switch {
	case !hasStatus(err, proto.StatusDirectoryNotEmpty):
		r.settle(e, err)
	case e.depth == maxDepth:
		r.settle(e, ErrTooMany)
	default:
		r.full = append(r.full, e)
	}
}

// removeEmptied removes a directory of which each entry was removed, or could not be.
func (r *removal) removeEmptied(d *directory) {
	if r.end != nil {
		return
	}
	r.do(func() func() {
		err := r.s.remove(d.name)
		return func() { r.settle(d, err) }
	})
}

// settle ends what is done about an entry. err is the result of the last attempt to remove it.
func (r *removal) settle(e *directory, err error) {
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		e.err = nil
	case e.err == nil: // otherwise the error of what is in it was reported
		r.fail(e, pathError("removeall", e.name, err))
	}
	d := e.in
	if d == nil {
		return
	}
	r.held.Add(-1)
	d.err = cmp.Or(d.err, e.err)
	if d.left--; d.left == 0 {
		r.removeEmptied(d)
	}
}

// fail reports why an entry stays, or a directory cannot be listed. After the loss of the server each further request would wait for
// it again.
func (r *removal) fail(d *directory, err error) {
	d.err = cmp.Or(d.err, err)
	if r.end != nil {
		return
	}
	if r.s.ctx.Err() != nil || errors.As(err, new(*dialError)) {
		r.end = err
	}
	r.failed(err)
}
