package smb

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"path"
	"strings"
	"time"
)

// job is one file to copy.
type job struct {
	from, to         tree
	fromName, toName string
	size             int64
	modified         time.Time
	present          bool   // it is there already, as it should be
	part             string // of toName's directory: what it is called while it grows
	partThere        bool   // there is such a file already
	partSize         int64  // how much of it is of use
}

// plan is what a copy has to do.
type plan struct {
	jobs    []*job
	total   int64 // bytes of all jobs, also of those that are done already
	skipped int   // symbolic links and other things that are no files
}

// partPrefix begins the names of unfinished files. Such files are never copied.
const partPrefix = ".tarn-part-"

// partName is what a file is called while it is being copied: its own name and the state
// of its source are in it, so that a part is gone on with only if it is one of the same.
func partName(j *job) (name, prefix string) {
	own, source := fnv.New64a(), fnv.New64a()
	own.Write([]byte(path.Base(j.toName)))
	fmt.Fprintf(source, "%s %d %d", j.from.label(j.fromName), j.size, j.modified.UnixNano())
	prefix = fmt.Sprintf("%s%016x-", partPrefix, own.Sum64())
	return fmt.Sprintf("%s%016x", prefix, source.Sum64()), prefix
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
		a.file(p, from, fromName, to, toName, info, siblings)
		return nil
	}
	if !a.opts.recursive {
		return usageError("%s is a directory; -r copies it", from.label(fromName))
	}
	return a.directory(ctx, p, from, fromName, to, toName)
}

// directory plans a directory, and makes it, parents before children.
func (a *app) directory(ctx context.Context, p *plan, from tree, fromName string, to tree, toName string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := from.ReadDir(fromName)
	if err != nil {
		return err
	}
	if toName != "." {
		if err := to.Mkdir(toName); err != nil {
			return err
		}
	}
	there, err := list(to, toName)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !plainName(e.Name()) {
			return fmt.Errorf("%s: refused: it has a file called %q", from.label(fromName), e.Name())
		}
		source, target := path.Join(fromName, e.Name()), path.Join(toName, e.Name())
		if e.IsDir() {
			if err := a.directory(ctx, p, from, source, to, target); err != nil {
				return err
			}
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // gone since
		}
		if err != nil {
			return err
		}
		a.file(p, from, source, to, target, info, there)
	}
	return nil
}

// file plans one file. there is what the target's directory has.
func (a *app) file(p *plan, from tree, fromName string, to tree, toName string, info fs.FileInfo, there map[string]fs.FileInfo) {
	if strings.HasPrefix(info.Name(), partPrefix) {
		return
	}
	if !info.Mode().IsRegular() {
		p.skipped++
		a.complain("left out, not a file: %s", from.label(fromName))
		return
	}
	j := &job{from: from, to: to, fromName: fromName, toName: toName, size: info.Size(), modified: info.ModTime()}
	if old := there[path.Base(toName)]; old != nil && !a.opts.anew {
		j.present = old.Mode().IsRegular() && old.Size() == j.size && sameTime(old.ModTime(), j.modified)
	}
	var prefix string
	j.part, prefix = partName(j)
	for name, old := range there {
		switch {
		case name == j.part:
			j.partThere = true
			if !a.opts.anew {
				j.partSize = min(old.Size(), j.size)
			}
		case strings.HasPrefix(name, prefix):
			to.Remove(path.Join(path.Dir(toName), name)) // of another state of the source: no use
		}
	}
	p.jobs = append(p.jobs, j)
	p.total += j.size
}

// sameTime compares two times as coarsely as the coarsest filesystem keeps them.
func sameTime(a, b time.Time) bool {
	d := a.Sub(b)
	return d > -2*time.Second && d < 2*time.Second
}

// list is what a directory has, by name.
func list(t tree, name string) (map[string]fs.FileInfo, error) {
	entries, err := t.ReadDir(name)
	if err != nil {
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
