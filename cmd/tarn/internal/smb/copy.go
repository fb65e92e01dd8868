package smb

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// runGet copies from a server. With one URL the target is the directory one is in.
func runGet(ctx context.Context, a *app, args []string) error {
	target := "./"
	if n := len(args); n > 1 && !isURL(args[n-1]) {
		target, args = args[n-1], args[:n-1]
	}
	return a.copyAll(ctx, args, target)
}

// runPut copies to a server.
func runPut(ctx context.Context, a *app, args []string) error {
	sources, target := args[:len(args)-1], args[len(args)-1]
	if !isURL(target) {
		return usageError("the last argument of put is where to: smb://host/share/path")
	}
	for _, s := range sources {
		if isURL(s) {
			return usageError("put copies from this machine")
		}
	}
	return a.copyAll(ctx, sources, target)
}

// place is a tree and a name in it.
type place struct {
	tree tree
	name string
	base string // the name to give a copy of it
}

// copyAll copies the sources to the target. Into it when it is a directory, under its
// name otherwise; but one directory alone becomes the target, also when that is there
// already, so that repeating an interrupted copy goes on with it. A "/" at the end of a target
// that is there means into it.
func (a *app) copyAll(ctx context.Context, sources []string, target string) error {
	to, isDir, err := a.target(ctx, target)
	if err != nil {
		return err
	}
	defer to.close()
	var p plan
	sources, err = a.matching(ctx, &p, sources)
	if err != nil {
		return err
	}
	if len(sources) > 1 && !isDir {
		return usageError("several files can only be copied into a directory, and %s is not one", target)
	}
	for _, s := range sources {
		from, err := a.source(ctx, s)
		if err != nil {
			return err
		}
		defer from.close()
		name := to.name
		if isDir && !a.becomes(from, sources, target) {
			if !plainName(from.base) {
				return usageError("%s: a server would read the name %q as a path; give the copy another name", s, from.base)
			}
			name = path.Join(to.name, from.base)
		}
		if err := a.add(ctx, &p, route{from.tree, to.tree, from.name, name}); err != nil {
			return err
		}
	}
	return a.carryOut(ctx, &p)
}

// matching replaces URLs with * ? or [ in them by those that they match. As in a directory, files with temporary names are left
// out, unless the pattern begins as they do: their writers may not have finished them.
func (a *app) matching(ctx context.Context, p *plan, sources []string) ([]string, error) {
	var out []string
	for _, s := range sources {
		if !isURL(s) || !hasMeta(s) {
			out = append(out, s)
			continue
		}
		places, err := a.expand(ctx, s)
		if err != nil {
			return nil, err
		}
		given := strings.HasPrefix(path.Base(s), replacePrefix)
		for _, found := range places {
			if !given && unfinished(path.Base(found.path)) {
				a.leaveOutTemporary(p, found.String())
				continue
			}
			out = append(out, found.url())
		}
	}
	return out, nil
}

// becomes reports whether a source is a directory alone, to become the target.
func (a *app) becomes(from place, sources []string, target string) bool {
	if len(sources) > 1 || strings.HasSuffix(target, "/") || strings.HasSuffix(target, string(filepath.Separator)) {
		return false
	}
	info, err := from.tree.Lstat(from.name)
	return err == nil && info.IsDir()
}

func (p place) close() {
	if l, ok := p.tree.(*local); ok {
		l.Close()
	}
}

// openLocal opens the directory dir; the place is name in it.
func openLocal(dir, name string) (place, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return place{}, err
	}
	return place{newLocal(root, dir), filepath.ToSlash(name), name}, nil
}

// source is what an argument names, seen from the directory it is in.
func (a *app) source(ctx context.Context, arg string) (place, error) {
	if !isURL(arg) {
		full, err := filepath.Abs(arg)
		if err != nil {
			return place{}, err
		}
		p, err := openLocal(filepath.Dir(full), filepath.Base(full))
		if err == nil && p.base == string(filepath.Separator) {
			p.name, p.base = ".", "root"
		}
		return p, err
	}
	l, err := parseLocation(arg)
	if err != nil {
		return place{}, err
	}
	share, err := a.share(ctx, l)
	if err != nil {
		return place{}, err
	}
	if !plainName(l.base()) {
		return place{}, usageError("%s has no usable name", l)
	}
	dir := l
	dir.path = path.Dir(l.path)
	name := path.Base(l.path)
	return place{&remote{share: share, at: dir}, name, l.base()}, nil
}

// target is the place that an argument names to copy to, and whether that is an existing directory.
func (a *app) target(ctx context.Context, arg string) (place, bool, error) {
	if isURL(arg) {
		return a.remoteTarget(ctx, arg)
	}
	info, err := os.Stat(arg)
	if err == nil && info.IsDir() {
		p, err := openLocal(arg, ".")
		return p, true, err
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return place{}, false, err
	}
	full, err := filepath.Abs(arg)
	if err != nil {
		return place{}, false, err
	}
	p, err := openLocal(filepath.Dir(full), filepath.Base(full))
	return p, false, err
}

func (a *app) remoteTarget(ctx context.Context, arg string) (place, bool, error) {
	l, err := parseLocation(arg)
	if err != nil {
		return place{}, false, err
	}
	share, err := a.share(ctx, l)
	if err != nil {
		return place{}, false, err
	}
	info, err := share.Stat(l.path)
	if err == nil && info.IsDir() {
		return place{tree: &remote{share: share, at: l}, name: "."}, true, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return place{}, false, err
	}
	dir := l
	dir.path = path.Dir(l.path)
	return place{tree: &remote{share: share, at: dir}, name: path.Base(l.path)}, false, nil
}
