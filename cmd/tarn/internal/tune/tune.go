// Package tune is the command "tarn tune": from what a pool recorded it prints what its size classes
// waste, the best classes, and what those save.
package tune

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
	"github.com/tarn-go/tarn/cmd/tarn/internal/fetch"
)

const usage = `usage: tarn tune [-k N] [-pool NAME] [-o report.html] [-header H] [-token T] FILE|URL

Reads what a pool recorded and prints the waste of its size classes, the best classes, what
those save, and the line of Go to paste. FILE is a histogram (JSON of Pool.Histogram), a snapshot of
the debug page (?format=json), or a recorded trace; "-" is standard input. URL is a debug page of a
running service.

`

// options are the command's flags.
type options struct {
	classes int
	pool    string
	report  string
	source  string
	header  fetch.Header
}

// Run runs the command and returns its exit status.
func Run(ctx context.Context, args []string, std cli.Streams) int {
	o, err := parse(args, std.Out)
	return cli.Finish("tarn tune", err, std.Err, func() error { return run(ctx, o, std) })
}

// parse takes flags before and after the source alike.
func parse(args []string, help io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("tarn tune", flag.ContinueOnError)
	flags.IntVar(&o.classes, "k", 0, "number of classes; 0 chooses it")
	flags.StringVar(&o.pool, "pool", "", "the pool of that name; all where a service has several")
	flags.StringVar(&o.report, "o", "", "write a report with plots to this file, as HTML")
	o.header.Flags(flags)
	sources, err := cli.Parse(flags, args, usage, help)
	switch {
	case err != nil:
		return o, err
	case len(sources) > 1:
		return o, fmt.Errorf("want one source, not %s and %s", sources[0], sources[1])
	case len(sources) == 0:
		return o, errors.New("no source: give a file or the URL of a debug page (-h for help)")
	case o.classes < 0:
		return o, fmt.Errorf("-k %d: there is at least one class", o.classes)
	}
	o.source = sources[0]
	return o, nil
}

func run(ctx context.Context, o options, std cli.Streams) error {
	found, err := load(ctx, o, std.In)
	if err != nil {
		return err
	}
	var results []result
	var failed error
	for _, in := range found {
		r, err := solve(in, o.classes)
		if err != nil {
			failed = fmt.Errorf("pool %q: %w", in.name, err)
			if len(found) > 1 {
				fmt.Fprintf(std.Out, "pool %q: %v\n\n", in.name, err)
			}
			continue
		}
		results = append(results, r)
		if err := r.print(std.Out); err != nil {
			return err
		}
	}
	if len(results) == 0 {
		return failed
	}
	if o.report == "" {
		return nil
	}
	page, err := report(results)
	if err != nil {
		return err
	}
	if err := os.WriteFile(o.report, page, 0o644); err != nil {
		return err
	}
	_, err = fmt.Fprintf(std.Out, "report: %s\n", o.report)
	return err
}
