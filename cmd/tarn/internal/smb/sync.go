package smb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// runSync makes the target directory equal to the source directory: it copies what differs and,
// with -delete, removes what the source does not have.
func runSync(ctx context.Context, a *app, args []string) error {
	if !isURL(args[0]) && !isURL(args[1]) {
		return usageError("neither %s nor %s is on a server", args[0], args[1])
	}
	from, err := a.source(ctx, args[0])
	if err != nil {
		return err
	}
	defer from.close()
	info, err := from.tree.Lstat(from.name)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return usageError("%s is not a directory; sync copies directories", args[0])
	}
	to, isDir, err := a.target(ctx, strings.TrimRight(args[1], "/"))
	if err != nil {
		return err
	}
	defer to.close()
	if _, err := to.tree.Lstat(to.name); err == nil && !isDir {
		return usageError("%s is not a directory", args[1])
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var p plan
	if err := a.tree(ctx, &p, route{from.tree, to.tree, from.name, to.name}); err != nil {
		return err
	}
	if a.opts.dryRun {
		return a.printPlan(&p)
	}
	if !a.opts.delete {
		return a.carryOut(ctx, &p)
	}
	// A file may have to be replaced by a directory of its name or the other way round; other extra files are
	// removed only after everything is copied.
	if err := a.carryOut(ctx, &p); err != nil {
		if len(p.extra) > 0 && ctx.Err() == nil {
			a.complain("nothing was removed, because something could not be copied")
		}
		return err
	}
	return a.removeExtra(ctx, &p)
}

// printPlan prints what would be done.
func (a *app) printPlan(p *plan) error {
	for _, j := range p.jobs {
		if !j.present {
			a.event(event{Action: "copy", Source: j.from.label(j.fromName), Target: j.to.label(j.toName), Bytes: j.size})
		}
	}
	if a.opts.delete {
		removed := slices.Concat(p.extra, p.replaced)
		sortExtra(removed)
		for _, e := range removed {
			a.event(event{Action: "remove", Target: e.tree.label(e.name)})
		}
	}
	return p.leftOut()
}

func sortExtra(list []extra) {
	slices.SortFunc(list, func(a, b extra) int { return strings.Compare(a.name, b.name) })
}

// removeExtra removes what is extra. When the server is lost and cannot be reconnected to, the remaining entries are not tried.
func (a *app) removeExtra(ctx context.Context, p *plan) error {
	t := trouble{app: a}
	sortExtra(p.extra)
	err := atOnce(removedAtOnce, p.extra, func(e extra) error {
		return a.untilKept(ctx, e.remove)
	}, func(e extra, err error) error {
		switch {
		case lost(err):
			return err
		case err != nil:
			return t.report(ctx, err)
		case a.opts.json || a.opts.progress:
			a.event(event{Action: "remove", Target: e.tree.label(e.name)})
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	return t.result()
}

// remove removes e, which may be gone: by an attempt whose answer was lost.
func (e extra) remove() error {
	if e.dir {
		return e.tree.RemoveAll(e.name)
	}
	if err := e.tree.Remove(e.name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// event is something that was done, or would be.
type event struct {
	Action string `json:"action"` // "copy", "skip", "verify", "remove"
	Source string `json:"source,omitempty"`
	Target string `json:"target"`
	Bytes  int64  `json:"bytes"`
	Error  string `json:"error,omitempty"`
}

// event writes an event to standard output: in words, or as JSON.
func (a *app) event(e event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.meter.clear()
	switch {
	case a.opts.json:
		writeJSON(a.std.Out, e)
	case e.Source != "":
		fmt.Fprintf(a.std.Out, "%s %s to %s (%s)\n", e.Action, printable(e.Source), printable(e.Target), size(e.Bytes))
	default:
		fmt.Fprintf(a.std.Out, "%s %s\n", e.Action, printable(e.Target))
	}
}
