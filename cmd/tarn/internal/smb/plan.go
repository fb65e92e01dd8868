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

// job is one file to copy.
type job struct {
	from, to         tree
	fromName, toName string
	size             int64
	modified         time.Time
	changed          time.Time // of anything about the file, where the source says so
	mayHaveHoles     bool      // the source has holes, or it has to be asked whether it has
	present          bool      // it is there already, as it should be
	targetThere      bool      // something has the target's name
	part             string    // of toName's directory: what it is called while it grows
	partThere        bool      // there is such a file already
	partSize         int64     // how much of it is of use
}

// plan is what a copy has to do.
type plan struct {
	jobs    []*job
	total   int64 // bytes of all jobs, also of those that are done already
	skipped int   // files that are left out, each of which is reported
	// extra are entries that the target has and the source does not have, in directories that both have.
	extra []extra
	// replaced are files in the place of directories, and directories in the place of files. A dry run shows them; otherwise
	// they are removed when their places are needed.
	replaced []extra
}

// extra is something for sync -delete to remove.
type extra struct {
	tree tree
	name string
	dir  bool
}

// add plans to copy what is called fromName in from to toName in to.
func (a *app) add(ctx context.Context, p *plan, from tree, fromName string, to tree, toName string) error {
	info, err := from.Lstat(fromName)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		siblings, err := list(to, path.Dir(toName))
		if err != nil {
			return err
		}
		useOwnNames(to, path.Dir(toName), []string{path.Base(toName)}, siblings)
		a.file(p, from, fromName, to, toName, info, siblings, partsIn(siblings))
		return nil
	}
	if !a.opts.recursive {
		return usageError("%s is a directory; -r copies it", from.label(fromName))
	}
	return a.directory(ctx, p, from, fromName, to, toName)
}

// directory plans a directory, and makes it unless this is a dry run, parents before children.
func (a *app) directory(ctx context.Context, p *plan, from tree, fromName string, to tree, toName string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := from.ReadDir(fromName)
	if errors.Is(err, client.ErrName) && !a.opts.delete { // a name on the server's disk that SMB does not have
		p.skipped++
		a.complain("left out: %v", err)
	} else if err != nil {
		return err
	}
	if toName != "." && !a.opts.dryRun {
		if err := a.makeDir(ctx, to, toName); err != nil {
			return err
		}
	}
	there := map[string]fs.FileInfo{}
	info, err := to.Lstat(toName)
	if err == nil && !info.IsDir() {
		p.replaced = append(p.replaced, extra{to, toName, false})
	}
	if !a.opts.dryRun || err == nil && info.IsDir() {
		if there, err = list(to, toName); err != nil {
			return err
		}
		names := make([]string, len(entries))
		for i, e := range entries {
			names[i] = e.Name()
		}
		useOwnNames(to, toName, names, there)
	}
	parts := partsIn(there)
	wanted := map[string]string{}
	for _, e := range entries {
		if !plainName(e.Name()) {
			return fmt.Errorf("%s: refused: it has a file called %q", from.label(fromName), e.Name())
		}
		if twin, taken := wanted[to.fold(e.Name())]; taken {
			p.skipped++
			a.complain("left out, differs from %s in case alone: %s", twin, from.label(path.Join(fromName, e.Name())))
			continue
		}
		wanted[to.fold(e.Name())] = e.Name()
		source, target := path.Join(fromName, e.Name()), path.Join(toName, e.Name())
		if e.IsDir() {
			err := a.directory(ctx, p, from, source, to, target)
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
			a.leaveOutTemporary(p, from.label(source))
			continue
		}
		a.file(p, from, source, to, target, info, there, parts)
	}
	for name, info := range there {
		if _, ok := wanted[to.fold(name)]; !ok && !unfinished(name) && plainName(name) {
			p.extra = append(p.extra, extra{to, path.Join(toName, name), info.IsDir()})
		}
	}
	return nil
}

// errNotDirectory is matched when the target has a file where the source has a directory.
var errNotDirectory = errors.New("exists and is not a directory")

// concernsOne reports whether err is about a directory alone, so that the others can be copied.
func concernsOne(err error) bool {
	if lost(err) || errors.Is(err, client.ErrLogin) || errors.Is(err, client.ErrShareLost) {
		return false
	}
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, client.ErrTooMany) || errors.Is(err, errNotDirectory)
}

// leaveOutTemporary reports a file that is not copied because of its name.
func (a *app) leaveOutTemporary(p *plan, name string) {
	p.skipped++
	a.complain("left out, a temporary name: %s", name)
}

// makeDir makes a directory of the target. With -delete a file in its place is removed. When the connection breaks it tries again: if the
// server has made the directory, it is there already.
func (a *app) makeDir(ctx context.Context, to tree, name string) error {
	err := a.untilKept(ctx, func() error { return to.Mkdir(name) })
	if err == nil {
		return nil
	}
	info, serr := to.Lstat(name)
	switch {
	case serr != nil || !errors.Is(err, fs.ErrExist):
		return err
	case info.IsDir():
		return nil
	case !a.opts.delete:
		return fmt.Errorf("%s %w", to.label(name), errNotDirectory)
	}
	if err := to.Remove(name); err != nil {
		return err
	}
	return to.Mkdir(name)
}

// partsIn are the names of unfinished files in there. A directory may have 100,000 files: no file is compared with all others.
func partsIn(there map[string]fs.FileInfo) (parts []string) {
	for name := range there {
		if strings.HasPrefix(name, partPrefix) {
			parts = append(parts, name)
		}
	}
	return parts
}

// file plans one file. there is what the target's directory has, and parts the unfinished files of it.
func (a *app) file(p *plan, from tree, fromName string, to tree, toName string, info fs.FileInfo, there map[string]fs.FileInfo, parts []string) {
	if !info.Mode().IsRegular() {
		p.skipped++
		a.complain("left out, not a file: %s", from.label(fromName))
		return
	}
	j := &job{from: from, to: to, fromName: fromName, toName: toName,
		size: info.Size(), modified: info.ModTime(), changed: changeTime(info), mayHaveHoles: mayHaveHoles(info)}
	old := there[path.Base(toName)]
	j.targetThere = old != nil
	if old != nil && old.IsDir() {
		p.replaced = append(p.replaced, extra{to, toName, true})
	}
	if old != nil && !a.opts.anew {
		j.present = old.Mode().IsRegular() && old.Size() == j.size && a.sameTime(old.ModTime(), j.modified)
	}
	var prefix string
	j.part, prefix = partName(partKey(), j)
	for _, name := range parts {
		switch {
		case name == j.part:
			old := there[name]
			j.partThere = old.Mode().IsRegular()
			if j.partThere && !a.opts.anew {
				j.partSize = min(old.Size(), j.size)
			}
		case strings.HasPrefix(name, prefix) && !a.opts.dryRun:
			to.Remove(path.Join(path.Dir(toName), name)) // it belongs to another state of the source
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
