package smb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sync/atomic"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

// RemoveAll removes the named file or directory and everything in it, with many requests in flight. It returns nil when it does not
// exist. It continues after an entry that cannot be removed, unless the share's context has ended or the server cannot be reached
// again. It returns one such error, or the one that ended it. It fails with ErrTooMany when it would have to remember more than
// Limits.MaxEntries entries, or Limits.MaxListing bytes of them, or when directories are nested more than 2,048 deep.
//
// RemoveAll does not leave the tree. Links in the directory of name are followed, others are not: symbolic links are removed, and a DFS
// link is left, with an error that matches ErrLeavesTree. So is a directory whose id, or whose parent's, is not that of the entry, or
// of the directory, that RemoveAll has met on the way down: servers such as Samba show a symbolic link that they follow themselves as
// the directory that it leads to. A directory that contains itself is left with ErrLoop. Not found are such links on servers that report
// no ids of files, one that replaces a directory meanwhile, and one that is name itself and leads to a directory beside it, among more than
// 4,096 entries: what they lead to is removed.
func (s *Share) RemoveAll(name string) error {
	return s.RemoveAllFunc(name, func(error) {})
}

// RemoveAllFunc is RemoveAll, and calls failed with the error of each file that cannot be removed, and of each directory that cannot be
// read, or removed although everything in it was. It calls failed in its caller's goroutine. After the end of the context, and when the
// server cannot be reached again, it calls failed once more at most.
func (s *Share) RemoveAllFunc(name string, failed func(error)) error {
	remote, err := s.remote(name)
	if err != nil || remote == "" {
		err = pathError("removeall", name, ErrName)
		failed(err)
		return err
	}
	r := removal{s: s, in: s, failed: failed, done: make(chan func(), window)}
	return r.run(name, remote)
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
	in      *Share // has the tree: s, or the share that a DFS link in the directory of its name leads to
	failed  func(error)
	done    chan func()  // one for each request that has ended: what its reply changes
	busy    int          // requests, or listings, that have not ended
	listing int          // of these, listings
	crowded bool         // listings had too many entries together: from then on each runs alone
	known   atomic.Int64 // entries that are known
	bytes   atomic.Int64 // that these count for
	listed  []*directory // those with entries that are to be removed
	full    []*directory // those that are to be listed
	end     error        // not nil: why nothing more is begun
}

// directory is a directory that is not empty, from its listing on; before, any entry.
type directory struct {
	removable
	path   string // for errors
	remote string
	in     *directory // nil: the root of the removal
	depth  int
	ids    ids
	names  []removable // entries that are to be removed
	left   int         // entries that have not been removed, and may be
	err    error       // of the first entry that could not be removed, or of the listing
}

// removable is an entry of a directory.
type removable struct {
	name string
	id   uint64 // in the listing of the directory that has it; zero: not known
}

func (x removable) cost() int64 { return int64(entryCost + len(x.name)) }

// forget takes entries off those that are known.
func (r *removal) forget(entries ...removable) {
	for _, x := range entries {
		r.known.Add(-1)
		r.bytes.Add(-x.cost())
	}
}

// ids are what a server reports of a directory; zero: not known.
type ids struct {
	opened DirID  // when it is opened
	listed uint64 // as its entry "."
}

// areOf reports whether id is that of the directory, as far as is known.
func (i ids) areOf(id uint64) bool {
	known := i.opened.File != 0 || i.listed != 0
	return id == 0 || !known || id == i.opened.File || id == i.listed
}

func (r *removal) run(name, remote string) error {
	root := &directory{path: name, remote: remote}
	r.tried(root, r.removeRoot(root)) // which is all for a file
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

// removeRoot removes what was named. If a link in its name leads elsewhere, it is removed there, unless it is the link itself.
func (r *removal) removeRoot(root *directory) error {
	err := r.remove(root.remote)
	var refused *ResponseError
	if !errors.As(err, &refused) || !refused.redirects() {
		return err
	}
	dir, base := split(root.remote)
	err = r.s.run(operation{kind: opDescribe, name: dir, do: func(ctx context.Context, t view, dir string) error {
		r.in, root.remote = &Share{m: t.m, ctx: r.s.ctx, snapshot: r.s.snapshot}, join(dir, base)
		return t.chain(ctx, statRequest(dir), nil)
	}})
	if err != nil {
		return err
	}
	return r.remove(root.remote)
}

// remove removes an entry without following a link, one that may not be written to, too.
func (r *removal) remove(remote string) error {
	return r.in.removeBy(opRemoveTree, opRemoveReadOnly, remote)
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
	e := d.entry(d.names[0])
	if d.names = d.names[1:]; len(d.names) == 0 {
		r.listed = r.listed[:last]
	}
	r.do(func() func() {
		remote, err := r.s.remote(e.name)
		if e.remote = join(d.remote, remote); err == nil && utf16Units(e.remote) > maxPath {
			err = ErrName
		}
		if err == nil {
			err = r.remove(e.remote)
		}
		return func() { r.tried(e, err) }
	})
}

// entry is an entry of d, by its own name alone.
func (d *directory) entry(x removable) *directory {
	return &directory{removable: x, path: path.Join(d.path, x.name), in: d, depth: d.depth + 1}
}

func (r *removal) beginListing() {
	last := len(r.full) - 1
	d, alone := r.full[last], r.crowded
	r.full = r.full[:last]
	r.listing++
	r.do(func() func() {
		names, err := r.list(d)
		return func() {
			r.listing--
			if errors.Is(err, ErrTooMany) && !alone {
				r.crowded = true
				r.forget(names...)
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

// list returns the entries of a directory. All are read first: servers lose their position in a directory that changes. It returns none
// if the directory is elsewhere.
func (r *removal) list(d *directory) (names []removable, err error) {
	ctx, cancel := r.s.m.s.bounded(r.s.ctx)
	defer cancel()
	var l *listing
	err = r.in.runIn(ctx, operation{kind: opListTree, name: d.remote, do: func(ctx context.Context, t view, remote string) error {
		create := listRequest(remote)
		create.Options |= proto.OptionOpenReparsePoint
		l, err = r.in.openListingOn(ctx, t, d.path, create, t.entryClass(proto.FileIDBothDirectoryInformation))
		return err
	}})
	if err != nil {
		return nil, pathError("readdir", d.path, leaving(err))
	}
	defer l.end(ctx)
	for {
		var e *info
		if e, err = l.next(ctx); err != nil {
			break
		}
		x := removable{e.name, e.id}
		entries, bytes := r.known.Add(1), r.bytes.Add(x.cost())
		if l := &r.s.m.s.cfg.Limits; entries > int64(l.MaxEntries) || bytes > int64(l.MaxListing) {
			r.forget(x)
			err = ErrTooMany
			break
		}
		names = append(names, x)
	}
	if elsewhere := r.enter(ctx, d, l); elsewhere != nil {
		r.forget(names...)
		names, err = nil, elsewhere
	}
	if err == io.EOF {
		return names, nil
	}
	return names, pathError("readdir", d.path, err)
}

// enter returns an error if a directory that was listed is not where its name says: in the directory above.
func (r *removal) enter(ctx context.Context, d *directory, l *listing) error {
	d.ids = ids{l.dirID(), l.self}
	for above := d.in; above != nil; above = above.in {
		if d.ids.opened != (DirID{}) && above.ids.opened == d.ids.opened {
			return ErrLoop
		}
	}
	var in ids
	if d.in != nil {
		in = d.in.ids
	} else {
		var err error
		if in, err = r.above(ctx, d); err != nil {
			return err
		}
	}
	if !d.ids.areOf(d.id) || !in.areOf(l.parent) {
		return ErrLeavesTree
	}
	return nil
}

// maxBeside is how many entries beside the tree are compared with it.
const maxBeside = 4096

// above returns the ids of the directory that has the tree. It fails if that has the same directory under another name, too: one of them
// is a link to the other.
func (r *removal) above(ctx context.Context, root *directory) (ids, error) {
	dir, base := split(root.remote)
	var l *listing
	err := r.in.runIn(ctx, operation{kind: opListTree, name: dir, do: func(ctx context.Context, t view, remote string) (err error) {
		l, err = r.in.openListingOn(ctx, t, dir, listRequest(remote), t.entryClass(proto.FileIDBothDirectoryInformation))
		return err
	}})
	if errors.As(err, new(*ResponseError)) && !errors.Is(err, ErrConnLost) {
		return ids{}, nil // this user may not read it
	} else if err != nil {
		return ids{}, err
	}
	defer l.end(ctx)
	itself, other := false, false
	for range maxBeside {
		e, err := l.next(ctx)
		if err == io.EOF || errors.Is(err, ErrName) {
			break
		}
		if err != nil {
			return ids{}, err
		}
		if sameName(r.s.m.s.cfg.Names.wire(e.name), base) {
			itself = true
		} else if e.id != 0 && (e.id == root.ids.opened.File || e.id == root.ids.listed) {
			other = true
		}
	}
	if itself && other {
		return ids{}, ErrLeavesTree
	}
	return ids{l.dirID(), l.self}, nil
}

// leaving is err, which matches ErrLeavesTree as well if a server refused a name because of a link in it.
func leaving(err error) error {
	var refused *ResponseError
	if errors.As(err, &refused) && refused.redirects() {
		err = fmt.Errorf("%w: %w", ErrLeavesTree, err)
	}
	return err
}

// gone reports whether err says that what was to be opened does not exist. Later, a server means something else: Samba refuses to remove
// a directory in which it cannot resolve a symbolic link with STATUS_OBJECT_PATH_NOT_FOUND.
func gone(err error) bool {
	var refused *ResponseError
	return errors.Is(err, fs.ErrNotExist) && (!errors.As(err, &refused) || refused.Command == proto.CommandCreate.String())
}

// wasListed goes on with a directory that was listed, as far as it could be.
func (r *removal) wasListed(d *directory, names []removable, err error) {
	if err != nil && !gone(err) {
		r.fail(d, err)
	}
	if d.names, d.left = names, len(names); d.left == 0 {
		if errors.Is(err, ErrLeavesTree) || errors.Is(err, ErrLoop) {
			r.settle(d, err)
			return
		}
		r.removeEmptied(d)
		return
	}
	r.listed = append(r.listed, d)
}

// tried goes on with an entry after the first attempt to remove it.
func (r *removal) tried(e *directory, err error) {
	switch {
	case !hasStatus(err, proto.StatusDirectoryNotEmpty) && (gone(err) || !errors.Is(err, fs.ErrNotExist)):
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
		err := r.remove(d.remote)
		return func() { r.settle(d, err) }
	})
}

// settle ends what is done about an entry. err is the result of the last attempt to remove it.
func (r *removal) settle(e *directory, err error) {
	switch {
	case err == nil, gone(err):
		e.err = nil
	case e.err == nil: // otherwise the error of what is in it was reported
		r.fail(e, pathError("removeall", e.path, leaving(err)))
	}
	d := e.in
	if d == nil {
		return
	}
	r.forget(e.removable)
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
