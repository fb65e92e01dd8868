package smb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	client "github.com/tarn-go/tarn/smb"
)

// route is what is copied, and where to.
type route struct {
	from, to         tree
	fromName, toName string
}

// entry is the route of an entry of the directory.
func (r route) entry(name string) route {
	r.fromName, r.toName = path.Join(r.fromName, name), path.Join(r.toName, name)
	return r
}

// job is one file to copy.
type job struct {
	route
	size         int64
	modified     time.Time
	changed      time.Time // of anything about the file, where the source says so
	mayHaveHoles bool      // the source has holes, or it has to be asked whether it has
	present      bool      // it is there already, as it should be
	targetThere  bool      // something has the target's name
	part         string    // of toName's directory: what it is called while it grows
	left         string    // a part that an earlier run has left; "": none
	partThere    bool      // there is such a file already
	partSize     int64     // how much of it is of use
	finishing    bool      // the part was complete, and is being given the file's name
}

// plan is what a copy has to do.
type plan struct {
	jobs    []*job
	total   int64 // bytes of all jobs, also of those that are done already
	skipped int   // files that are left out, each of which is reported
}

// add plans to copy a file or directory.
func (a *app) add(ctx context.Context, p *plan, r route) error {
	info, err := r.from.Lstat(r.fromName)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		siblings, err := list(r.to, path.Dir(r.toName))
		if err != nil {
			return err
		}
		useOwnNames(r.to, path.Dir(r.toName), []string{path.Base(r.toName)}, siblings)
		a.file(p, r, info, inTarget(siblings))
		return nil
	}
	if !a.opts.recursive {
		return usageError("%s is a directory; -r copies it", r.from.label(r.fromName))
	}
	return a.tree(ctx, p, r)
}

// tree plans a directory and everything in it.
func (a *app) tree(ctx context.Context, p *plan, r route) error {
	old, err := r.to.Lstat(r.toName)
	if err != nil {
		old = nil
	}
	return a.directory(ctx, p, r, listBoth(r, old), nil)
}

// directory plans a directory, and makes it, parents before children.
func (a *app) directory(ctx context.Context, p *plan, r route, l listings, above ancestors) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	above, err := above.with(l.id)
	if err != nil {
		return fmt.Errorf("%s: %w", r.from.label(r.fromName), err)
	}
	if errors.Is(l.err, client.ErrName) { // a name on the server's disk that SMB does not have
		p.skipped++
		a.complain("left out: %v", l.err)
	} else if l.err != nil {
		return l.err
	}
	there, err := a.targetDir(ctx, r, l)
	if err != nil {
		return err
	}
	names := make([]string, len(l.entries))
	for i, e := range l.entries {
		names[i] = e.Name()
	}
	useOwnNames(r.to, r.toName, names, there)
	entries := a.distinct(p, r, l.entries)
	below, target := newLister(r, entries, there), inTarget(there)
	defer below.wait()
	for _, e := range entries {
		entry := r.entry(e.Name())
		if e.IsDir() {
			err := a.directory(ctx, p, entry, below.of(e.Name()), above)
			if concernsOne(err) && ctx.Err() == nil {
				p.skipped++
				a.complain("left out: %s", explain(err))
			} else if err != nil {
				return err
			}
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since
		}
		if err != nil {
			return err
		}
		if unfinished(e.Name()) {
			a.leaveOutTemporary(p, entry.from.label(entry.fromName))
			continue
		}
		a.file(p, entry, info, target)
	}
	return nil
}

// targetDir returns what the target has in a directory, and makes it.
func (a *app) targetDir(ctx context.Context, r route, l listings) (map[string]fs.FileInfo, error) {
	if l.old != nil && l.old.IsDir() {
		return l.there, l.thereErr
	}
	if r.toName != "." {
		if made, err := a.makeDir(ctx, r.to, r.toName); made || err != nil {
			return map[string]fs.FileInfo{}, err
		}
	}
	return list(r.to, r.toName)
}

// distinct returns the entries of a directory that are copied: of those whose names are one name for the target, the first.
func (a *app) distinct(p *plan, r route, entries []fs.DirEntry) (kept []fs.DirEntry) {
	wanted := make(map[string]string, len(entries))
	for _, e := range entries {
		if !plainName(e.Name()) {
			p.skipped++
			a.complain("left out, no name for a file of both sides: %q in %s", e.Name(), r.from.label(r.fromName))
			continue
		}
		fold := r.to.fold(e.Name())
		if twin, taken := wanted[fold]; taken {
			p.skipped++
			a.complain("left out, differs from %s in case alone: %s", twin, r.from.label(path.Join(r.fromName, e.Name())))
			continue
		}
		wanted[fold] = e.Name()
		kept = append(kept, e)
	}
	return kept
}

// errNotDirectory is matched when the target has a file where the source has a directory.
var errNotDirectory = errors.New("exists and is not a directory")

// concernsOne reports whether err is about a directory alone, so that the others can be copied.
func concernsOne(err error) bool {
	if lost(err) || errors.Is(err, client.ErrLogin) || errors.Is(err, client.ErrShareLost) {
		return false
	}
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, client.ErrTooMany) ||
		errors.Is(err, errNotDirectory) || errors.Is(err, client.ErrLoop) || errors.Is(err, client.ErrName)
}

// leaveOutTemporary reports a file that is not copied because of its name.
func (a *app) leaveOutTemporary(p *plan, name string) {
	p.skipped++
	a.complain("left out, a temporary name: %s", name)
}

// makeDir makes a directory of the target, and reports whether it is certainly a new one. When the connection breaks it tries again: if the
// server has made the directory, it is there already.
func (a *app) makeDir(ctx context.Context, to tree, name string) (made bool, err error) {
	err = a.untilKept(ctx, func() error { return to.Mkdir(name) })
	if err == nil {
		return true, nil
	}
	info, serr := to.Lstat(name)
	switch {
	case serr != nil || !errors.Is(err, fs.ErrExist):
		return false, err
	case info.IsDir():
		return false, nil
	}
	return false, fmt.Errorf("%s %w", to.label(name), errNotDirectory)
}

// present is what the target's directory of a file has.
type present struct {
	files map[string]fs.FileInfo
	parts []string // the names of unfinished files. A directory may have 100,000 files: no file is compared with all others
}

func inTarget(there map[string]fs.FileInfo) present {
	t := present{files: there}
	for name := range there {
		if strings.HasPrefix(name, partPrefix) {
			t.parts = append(t.parts, name)
		}
	}
	return t
}

// file plans one file.
func (a *app) file(p *plan, r route, info fs.FileInfo, there present) {
	if !info.Mode().IsRegular() {
		p.skipped++
		a.complain("left out, not a file: %s", r.from.label(r.fromName))
		return
	}
	j := &job{route: r, size: info.Size(), modified: info.ModTime(), changed: changeTime(info), mayHaveHoles: mayHaveHoles(info)}
	old := there.files[path.Base(r.toName)]
	j.targetThere = old != nil
	if old != nil && old.IsDir() {
		p.skipped++
		a.complain("left out: %s is a directory, and %s is not one", r.to.label(r.toName), r.from.label(r.fromName))
		return
	}
	if old != nil && !a.opts.anew {
		j.present = old.Mode().IsRegular() && old.Size() == j.size && a.sameTime(old.ModTime(), j.modified)
	}
	key, _ := a.partKey()
	var state, file string
	j.part, state, file = partName(key, j)
	for _, name := range there.parts {
		part := there.files[name]
		switch {
		case strings.HasPrefix(name, state) && part.Mode().IsRegular() && !a.opts.anew && part.Size() >= j.partSize:
			j.left, j.partSize = name, min(part.Size(), j.size)
		case strings.HasPrefix(name, file):
			r.to.Remove(path.Join(path.Dir(r.toName), name)) // it belongs to another state of the source
		}
	}
	p.jobs = append(p.jobs, j)
	p.total += j.size
}

// timeUnit is how finely SMB stores times (MS-DTYP 2.3.3).
const timeUnit = 100 * time.Nanosecond

// sameTime compares two times as finely as SMB stores them, or within -time-window. Two files of
// one size and the same time are considered equal; if the times differ, the file is copied again.
func (a *app) sameTime(x, y time.Time) bool {
	if a.opts.window > 0 {
		return x.Sub(y).Abs() < a.opts.window
	}
	return x.Truncate(timeUnit).Equal(y.Truncate(timeUnit))
}

// list is what a directory has, by name, as far as SMB has the names.
func list(t tree, name string) (map[string]fs.FileInfo, error) {
	entries, err := t.ReadDir(name)
	if err != nil && !errors.Is(err, client.ErrName) {
		return nil, err
	}
	there := make(map[string]fs.FileInfo, len(entries))
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			there[e.Name()] = info
		}
	}
	return there, nil
}
