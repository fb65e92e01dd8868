// Package tune is the command "tarn tune": from what a pool recorded it prints what its size classes
// waste, the best classes, and what those save.
package tune

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
	"github.com/tarn-go/tarn/cmd/tarn/internal/fetch"
)

// options are the command's flags.
type options struct {
	classes int
	pool    string
	report  string
	source  string
	header  fetch.Header
}

// Command is the command.
func Command() *cobra.Command {
	var o options
	c := &cobra.Command{Use: "tune [-k N] [-pool NAME] [-o report.html] [-header H] [-token T] FILE|URL", Short: "find the best size classes for what a pool recorded", DisableFlagsInUseLine: true,
		Long: strings.TrimSpace(`
Reads what a pool recorded and prints the waste of its size classes, the best classes, what
those save, and the line of Go to paste. FILE is a histogram (JSON of Pool.Histogram), a snapshot of
the debug page (?format=json), or a recorded trace; "-" is standard input. URL is a debug page of a
running service.`),
		RunE: func(cmd *cobra.Command, sources []string) error {
			switch {
			case len(sources) > 1:
				return fmt.Errorf("want one source, not %s and %s", sources[0], sources[1])
			case len(sources) == 0:
				return errors.New("no source: give a file or the URL of a debug page (-h for help)")
			case o.classes < 0:
				return fmt.Errorf("-k %d: there is at least one class", o.classes)
			}
			o.source = sources[0]
			return cli.Fail(run(cmd.Context(), o, cli.StreamsOf(cmd)))
		}}
	c.Flags().IntVarP(&o.classes, "classes", "k", 0, "number of classes; 0 chooses it")
	c.Flags().StringVar(&o.pool, "pool", "", "the pool of that name; all where a service has several")
	c.Flags().StringVarP(&o.report, "output", "o", "", "write a report with plots to this `file`, as HTML")
	o.header.Flags(c.Flags())
	return c
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
