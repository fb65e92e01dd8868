package smb

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"

	client "github.com/tarn-go/tarn/smb"
)

// at finds the share and the path that a URL names.
func (a *app) at(ctx context.Context, arg string) (*client.Share, location, error) {
	l, err := parseLocation(arg)
	if err != nil {
		return nil, l, err
	}
	share, err := a.share(ctx, l)
	return share, l, err
}

// runList lists a directory, a file, or the shares of a server.
func runList(ctx context.Context, a *app, args []string) error {
	l, err := parseLocation(args[0])
	if err != nil {
		return err
	}
	out := bufio.NewWriter(a.std.Out)
	defer out.Flush()
	if l.share == "" {
		return a.listShares(ctx, out, l)
	}
	share, err := a.share(ctx, l)
	if err != nil {
		return err
	}
	info, err := share.Stat(l.path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		a.line(out, l.base(), info)
		return out.Flush()
	}
	if err := a.listDir(ctx, out, share, l.path, ""); err != nil {
		return err
	}
	return out.Flush()
}

func (a *app) listShares(ctx context.Context, out io.Writer, l location) error {
	s, err := a.session(ctx, l)
	if err != nil {
		return err
	}
	shares, err := s.Shares(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", l, err)
	}
	for _, share := range shares {
		if a.opts.long {
			fmt.Fprintf(out, "%-24s %s\n", printable(share.Name), printable(share.Comment))
		} else {
			fmt.Fprintln(out, printable(share.Name))
		}
	}
	return nil
}

// listDir writes the entries of a directory, each with prefix before its name.
func (a *app) listDir(ctx context.Context, out io.Writer, share *client.Share, dir, prefix string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := share.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return err
		}
		a.line(out, prefix+e.Name(), info)
		if e.IsDir() && a.opts.recursive && plainName(e.Name()) {
			if err := a.listDir(ctx, out, share, path.Join(dir, e.Name()), prefix+e.Name()+"/"); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *app) line(out io.Writer, name string, info fs.FileInfo) {
	if info.IsDir() {
		name += "/"
	}
	if a.opts.long {
		fmt.Fprintf(out, "%s %12d %s ", info.Mode(), info.Size(), info.ModTime().Local().Format("2006-01-02 15:04:05"))
	}
	fmt.Fprintln(out, printable(name))
}

// printable replaces control characters, which a server could drive a terminal with.
func printable(s string) string {
	out := []rune(s)
	for i, r := range out {
		if r < 0x20 || r >= 0x7f && r < 0xa0 {
			out[i] = '?'
		}
	}
	return string(out)
}

// runCat writes files to standard output.
func runCat(ctx context.Context, a *app, args []string) error {
	for _, arg := range args {
		share, l, err := a.at(ctx, arg)
		if err != nil {
			return err
		}
		f, err := share.Open(l.path)
		if err != nil {
			return err
		}
		_, err = f.WriteTo(a.std.Out)
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// runRemove removes files and, with -r, directories.
func runRemove(ctx context.Context, a *app, args []string) error {
	bad := false
	for _, arg := range args {
		share, l, err := a.at(ctx, arg)
		if err != nil {
			return err
		}
		if l.path == "." {
			return usageError("%s is a whole share; its files have to be named", l)
		}
		if a.opts.recursive {
			if _, err = share.Lstat(l.path); err == nil {
				err = share.RemoveAll(l.path)
			}
		} else {
			err = share.Remove(l.path)
		}
		if err != nil {
			if ctx.Err() != nil {
				return err
			}
			bad = true
			a.complain("%s", explain(err))
		}
	}
	if bad {
		return errReported
	}
	return nil
}

// runUsage adds up sizes.
func runUsage(ctx context.Context, a *app, args []string) error {
	for _, arg := range args {
		share, l, err := a.at(ctx, arg)
		if err != nil {
			return err
		}
		var bytes, files int64
		err = share.WalkDir(l.path, func(name string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if e.Type().IsRegular() {
				info, err := e.Info()
				if err != nil {
					return err
				}
				bytes += info.Size()
				files++
			}
			return nil
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(a.std.Out, "%d\t%s in %d files\t%s\n", bytes, size(bytes), files, l)
	}
	return nil
}
