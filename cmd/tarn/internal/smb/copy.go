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
	// device is what exists on this machine and is neither a file nor a directory; the others are zero then.
	device string
}

// copyAll copies the sources to the target, by the rules of cp and scp: into it when it is a directory, under its
// name otherwise.
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
	into := isDir && !a.opts.exact
	if len(sources) > 1 && !into {
		return usageError("several files can only be copied into a directory, and %s is not one", target)
	}
	var routes []route
	names := map[string]string{} // in the target: the sources that get them
	for _, s := range sources {
		from, err := a.source(ctx, s)
		if err != nil {
			return err
		}
		defer from.close()
		if to.device != "" {
			return a.stream(ctx, from, to.device)
		}
		name := to.name
		if into {
			if !plainName(from.base) {
				return usageError("%s: a server would read the name %q as a path; give the copy another name", s, from.base)
			}
			name = path.Join(to.name, from.base)
			if other, taken := names[to.tree.fold(from.base)]; taken {
				return usageError("%s and %s would be one file in %s", other, s, target)
			}
			names[to.tree.fold(from.base)] = s
		}
		if isDir && !into {
			if info, err := from.tree.Lstat(from.name); err != nil || !info.IsDir() {
				return usageError("-T: %s is a directory, and %s is not one", target, s)
			}
		}
		routes = append(routes, route{from.tree, to.tree, from.name, name})
	}
	for _, r := range routes {
		if err := a.add(ctx, &p, r); err != nil {
			return err
		}
	}
	return a.carryOut(ctx, &p)
}

// stream writes a file to a device or a pipe.
func (a *app) stream(ctx context.Context, from place, device string) error {
	info, err := from.tree.Lstat(from.name)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return usageError("%s is a directory, and %s is not one", from.tree.label(from.name), device)
	}
	in, err := from.tree.Open(from.name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(device, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = in.WriteTo(writeCounter{out, counter{ctx, func(int64) {}}})
	return errors.Join(err, out.Close())
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
		given := unfinished(path.Base(s))
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
	return place{tree: newLocal(root, dir), name: filepath.ToSlash(name), base: name}, nil
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
	return place{tree: &remote{share: share, at: dir, umask: a.umask}, name: name, base: l.base()}, nil
}

// target is the place that an argument names to copy to, and whether that is an existing directory.
func (a *app) target(ctx context.Context, arg string) (place, bool, error) {
	if isURL(arg) {
		return a.remoteTarget(ctx, arg)
	}
	info, err := os.Stat(arg) // cp and scp write through symbolic links, too
	switch {
	case err == nil && info.IsDir():
		p, err := openLocal(arg, ".")
		return p, true, err
	case meansDirectory(arg, string(filepath.Separator)):
		return place{}, false, usageError("%s is not a directory", arg)
	case err == nil && !info.Mode().IsRegular():
		return place{device: arg}, false, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return place{}, false, err
	}
	full, err := filepath.Abs(arg)
	if err != nil {
		return place{}, false, err
	}
	if info != nil {
		full, err = filepath.EvalSymlinks(full)
	} else if _, lerr := os.Lstat(full); lerr == nil {
		err = usageError("%s is a symbolic link to nothing", arg)
	}
	if err != nil {
		return place{}, false, err
	}
	p, err := openLocal(filepath.Dir(full), filepath.Base(full))
	return p, false, err
}

// meansDirectory reports whether a target is written with a separator at its end, and so means a directory.
func meansDirectory(arg, separator string) bool {
	return strings.HasSuffix(arg, "/") || strings.HasSuffix(arg, separator)
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
		return place{tree: &remote{share: share, at: l, umask: a.umask, exact: posixOf(info) != nil}, name: "."}, true, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return place{}, false, err
	}
	if meansDirectory(arg, "/") {
		return place{}, false, usageError("%s is not a directory", arg)
	}
	to := &remote{share: share, at: l, umask: a.umask}
	to.at.path = path.Dir(l.path)
	if a.opts.posix {
		if info, err := share.Stat(to.at.path); err == nil {
			to.exact = posixOf(info) != nil
		}
	}
	return place{tree: to, name: path.Base(l.path)}, false, nil
}
