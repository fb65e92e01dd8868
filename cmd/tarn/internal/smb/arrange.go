package smb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	client "github.com/tarn-go/tarn/smb"
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
			err = p.share.MkdirAll(p.path, 0o777&^a.umask)
		} else if err == nil {
			err = p.share.Mkdir(p.path, 0o777&^a.umask)
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
	return a.rename(ctx, args, "moved", move)
}

// move renames a file. A symbolic link that may be one of those that [client.Share.Rename] loses is made anew with its times: its time of
// creation, owner and extended attributes are others. With the POSIX extensions the old link is removed last, and stays if another step
// fails. Without them the link is renamed first, since other servers than Samba rename links: if a later step fails there, the error has the
// target of a link that is lost.
func move(share *client.Share, from, to string) error {
	var info fs.FileInfo
	err := share.RenameNoReplaceIf(from, to, func(found fs.FileInfo) error {
		if info = found; found.Mode()&fs.ModeSymlink != 0 && found.Size() == 0 {
			return errMayBeLost
		}
		return nil
	})
	if !errors.Is(err, errMayBeLost) {
		return err
	}
	target, err := share.Readlink(from)
	if err != nil {
		return err
	}
	st := info.Sys().(*client.FileStat)
	if posixOf(info) != nil {
		if err := share.SymlinkTimes(target, to, st.LastAccessTime, st.LastWriteTime); err != nil {
			return err
		}
		return share.RemoveIf(from, isFile(st))
	}
	if err := share.RenameNoReplaceIf(from, to, isFile(st)); err != nil {
		return err
	}
	err = share.RemoveIf(to, func(now fs.FileInfo) error {
		if !now.Mode().IsRegular() || now.Size() > 0 {
			return errNotLost
		}
		return nil
	})
	if errors.Is(err, errNotLost) {
		return nil
	}
	if err == nil {
		err = share.SymlinkTimes(target, to, st.LastAccessTime, st.LastWriteTime)
	}
	if err != nil {
		err = fmt.Errorf("%s was a symbolic link to %q: %w", to, target, err)
	}
	return err
}

var (
	errMayBeLost = errors.New("a symbolic link that may be lost")
	errNotLost   = errors.New("the link is renamed")
)

// isFile returns a function that fails for descriptions of other files than st describes.
func isFile(st *client.FileStat) func(fs.FileInfo) error {
	return func(now fs.FileInfo) error {
		if has := now.Sys().(*client.FileStat); has.FileID != st.FileID || has.ReparseTag != st.ReparseTag {
			return fs.ErrNotExist
		}
		return nil
	}
}

// runLink makes hard links, named as by runMove, or one symbolic link.
func runLink(ctx context.Context, a *app, args []string) error {
	if !a.opts.symbolic {
		return a.rename(ctx, args, "linked", (*client.Share).Link)
	}
	if len(args) != 2 || isURL(args[0]) {
		return usageError("ln -s takes a path, to which the link leads, and the URL of the link")
	}
	at, err := a.at(ctx, args[1])
	if err != nil {
		return err
	}
	return at.share.Symlink(args[0], at.path)
}

// rename gives files the name that the last argument says, or their names in the directory that it is. done is what is done with them.
func (a *app) rename(ctx context.Context, args []string, done string, give func(share *client.Share, from, to string) error) error {
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
			return usageError("several files can only be %s into a directory, and %s is not one", done, to)
		}
		for _, p := range places {
			name := to.path
			if into {
				name = path.Join(to.path, p.base())
			}
			if err := t.report(ctx, p.give(to, name, done, give)); err != nil {
				return err
			}
		}
	}
	return t.result()
}

// give gives a file the name on the share of to.
func (p spot) give(to spot, name, done string, give func(share *client.Share, from, to string) error) error {
	if p.share != to.share {
		return usageError("%s and %s are not on one share", p, to)
	}
	if p.path == "." {
		return usageError("%s is a whole share, which cannot be %s", p, done)
	}
	return give(p.share, p.path, name)
}
