package smb

import (
	"context"
	"errors"
	"io/fs"
	"path"
)

// runRemove removes files and, with -r, directories.
func runRemove(ctx context.Context, a *app, args []string) error {
	t := trouble{app: a}
	for _, arg := range args {
		places, err := a.expand(ctx, arg)
		if err = t.report(ctx, err); err != nil {
			return err
		}
		n := removedAtOnce
		if a.opts.recursive {
			n = treesAtOnce
		}
		err = atOnce(n, places, func(p spot) error { return t.remove(ctx, p) }, func(_ spot, err error) error { return err })
		if err != nil {
			return err
		}
	}
	return t.result()
}

// treesAtOnce is how many trees are removed at a time: package smb removes many entries of each at a time.
const treesAtOnce = 8

// remove removes what has the name, and reports each entry of a directory that stays. It returns what report does.
func (t *trouble) remove(ctx context.Context, p spot) error {
	if p.path == "." {
		return usageError("%s is a whole share; its files have to be named", p)
	}
	if !t.app.opts.recursive {
		return t.report(ctx, p.share.Remove(p.path))
	}
	if _, err := p.share.Lstat(p.path); err != nil {
		return t.report(ctx, err)
	}
	var end error
	p.share.RemoveAllFunc(p.path, func(err error) {
		if e := t.report(ctx, err); end == nil {
			end = e
		}
	})
	return end
}

// runMkdir makes directories.
func runMkdir(ctx context.Context, a *app, args []string) error {
	t := trouble{app: a}
	for _, arg := range args {
		p, err := a.at(ctx, arg)
		if err == nil && a.opts.parents {
			err = p.share.MkdirAll(p.path, 0o777)
		} else if err == nil {
			err = p.share.Mkdir(p.path, 0o777)
		}
		if err := t.report(ctx, err); err != nil {
			return err
		}
	}
	return t.result()
}

// runMove renames: into an existing directory, or to another name. An existing file of that name
// is not replaced.
func runMove(ctx context.Context, a *app, args []string) error {
	to, err := a.at(ctx, args[len(args)-1])
	if err != nil {
		return err
	}
	info, err := to.share.Stat(to.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	into := err == nil && info.IsDir()
	t := trouble{app: a}
	for _, arg := range args[:len(args)-1] {
		places, err := a.expand(ctx, arg)
		if err = t.report(ctx, err); err != nil {
			return err
		}
		if !into && (len(args) > 2 || len(places) > 1) {
			return usageError("several files can only be moved into a directory, and %s is not one", to)
		}
		for _, p := range places {
			name := to.path
			if into {
				name = path.Join(to.path, p.base())
			}
			if err := t.report(ctx, a.move(p, to, name)); err != nil {
				return err
			}
		}
	}
	return t.result()
}

func (a *app) move(from, to spot, name string) error {
	if from.share != to.share {
		return usageError("%s and %s are not on one share", from, to)
	}
	if from.path == "." {
		return usageError("%s is a whole share, which cannot be moved", from)
	}
	return from.share.RenameNoReplace(from.path, name)
}
