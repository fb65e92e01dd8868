package smb

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"
)

// criteria are the conditions of find; a zero field is no condition.
type criteria struct {
	name            string // of path.Match
	kind            string // "f", "d", "l"
	larger, smaller int64  // bytes
	newer, older    time.Duration
}

func (c *criteria) match(info fs.FileInfo, now time.Time) bool {
	if c.name != "" {
		if ok, _ := path.Match(c.name, info.Name()); !ok {
			return false
		}
	}
	mode := info.Mode()
	switch c.kind {
	case "f":
		if !mode.IsRegular() {
			return false
		}
	case "d":
		if !mode.IsDir() {
			return false
		}
	case "l":
		if mode.Type() != fs.ModeSymlink {
			return false
		}
	}
	if (c.larger > 0 || c.smaller > 0) && !mode.IsRegular() {
		return false
	}
	age := now.Sub(info.ModTime())
	return (c.larger == 0 || info.Size() > c.larger) && (c.smaller == 0 || info.Size() < c.smaller) &&
		(c.newer == 0 || age <= c.newer) && (c.older == 0 || age > c.older)
}

// sizeFlag reads a number of bytes with a unit.
func sizeFlag(to *int64) func(string) error {
	return func(s string) error {
		digits, unit := s, int64(1)
		if i := strings.IndexAny(s, "KMGT"); i >= 0 && i == len(s)-1 {
			digits, unit = s[:i], int64(1)<<(10*(1+strings.IndexByte("KMGT", s[i])))
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n < 1 || n > (1<<62)/unit {
			return fmt.Errorf("%q is no size", s)
		}
		*to = n * unit
		return nil
	}
}

// runFind lists the files that fulfil the criteria, each by its URL.
func runFind(ctx context.Context, a *app, args []string) error {
	out := bufio.NewWriter(a.std.Out)
	defer out.Flush()
	t := trouble{app: a}
	now := time.Now()
	for _, arg := range args {
		places, err := a.expand(ctx, arg)
		if err = t.report(ctx, err); err != nil {
			return err
		}
		for _, p := range places {
			err := p.share.WalkDir(p.path, func(name string, e fs.DirEntry, err error) error {
				if err != nil {
					return t.report(ctx, err)
				}
				info, err := e.Info()
				if err != nil {
					return t.report(ctx, err)
				}
				if a.opts.find.match(info, now) {
					l := p.location
					l.path = path.Clean(strings.ReplaceAll(name, `\`, "/"))
					a.entry(out, l.String(), l, info)
				}
				return nil
			})
			if err = t.report(ctx, err); err != nil {
				return err
			}
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return t.result()
}
