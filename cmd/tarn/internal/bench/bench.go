package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
)

// section is a part of the benchmark that can be asked for by name.
type section struct {
	name  string
	title string
	run   func(context.Context, *session) ([]Case, error)
}

func sections() []section {
	return []section{
		{"core", "Taking and freeing memory", runCore},
		{"http", "net/http handlers and clients over HTTP/2, and its reverse proxy, on loopback", runHTTP},
		{"grpc", "Stock grpc-go on loopback, with its own pool and with Tarn's", runGRPC},
		{"rpc", "gRPC: Tarn's runtime and grpc-go, with the same generated stubs", runRPC},
		{"smb", "SMB: reading from a Samba server on loopback", runSMB},
	}
}

// options are the values of the command's flags and arguments.
type options struct {
	sections []section
	short    bool
	json     bool
	html     string
}

// Command is tarn bench.
func Command() *cobra.Command {
	var opt options
	known := sections()
	var names []string
	about := "Measures Tarn beside what programs use today. Sections (all of them if none is named):\n"
	for _, s := range known {
		names = append(names, s.name)
		about += fmt.Sprintf("\n  %-8s%s", s.name, s.title)
	}
	c := &cobra.Command{Use: "bench [section ...]", Short: "measure Tarn beside what programs use today", Long: about,
		Args: cobra.ArbitraryArgs, ValidArgs: names,
		RunE: func(cmd *cobra.Command, asked []string) error {
			if err := opt.choose(asked); err != nil {
				return err
			}
			rep, err := measure(cmd.Context(), opt, newProgress(cmd.ErrOrStderr()))
			if err == nil {
				err = deliver(rep, opt, cmd.OutOrStdout())
			}
			return cli.Fail(err)
		}}
	c.Flags().BoolVar(&opt.short, "short", false, "a quick look: fewer cases and turns, about ten seconds")
	c.Flags().BoolVar(&opt.json, "json", false, "print the results as JSON instead of tables")
	c.Flags().StringVarP(&opt.html, "output", "o", "", "write the page with plots to `file` (without -short and -json by default: tarn-bench-DATE.html, here)")
	c.AddCommand(&cobra.Command{Use: relayCommand, Hidden: true, Args: cobra.ExactArgs(2), // a process of a measurement
		RunE: func(_ *cobra.Command, args []string) error { return cli.Fail(runRelay(args[0], args[1])) }})
	return c
}

// choose sets the sections that are named, all if none is.
func (opt *options) choose(asked []string) error {
	known := sections()
	var names []string
	for _, s := range known {
		names = append(names, s.name)
	}
	for _, name := range asked {
		i := slices.Index(names, name)
		if i < 0 {
			return fmt.Errorf("unknown section %q (there are: %s)", name, strings.Join(names, " "))
		}
		if !slices.ContainsFunc(opt.sections, func(s section) bool { return s.name == name }) {
			opt.sections = append(opt.sections, known[i])
		}
	}
	if len(opt.sections) == 0 {
		opt.sections = known
	}
	return nil
}

// session is one run of the command.
type session struct {
	plan
	progress *progress
}

func measure(ctx context.Context, opt options, pr *progress) (*Report, error) {
	s := &session{plan: fullPlan(), progress: pr}
	if opt.short {
		s.plan = shortPlan()
	}
	defer pr.done()
	rep := &Report{Machine: machine(), Plan: s.plan.String(), Started: time.Now().UTC().Truncate(time.Second)}
	for _, sec := range opt.sections {
		// A section that is left out does not look at ctx.
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("%s: %w", sec.name, err)
		}
		pr.section(sec.name)
		cases, err := sec.run(ctx, s)
		var out leftOut
		if err != nil && !errors.As(err, &out) {
			return nil, fmt.Errorf("%s: %w", sec.name, err)
		}
		rep.Sections = append(rep.Sections, Section{Name: sec.name, Title: sec.title, Note: string(out), Cases: cases})
	}
	rep.Seconds = time.Since(rep.Started).Seconds()
	return rep, nil
}

// deliver writes the results to out, and the page to where it was asked for: a whole run's page is kept without being asked for.
func deliver(rep *Report, opt options, out io.Writer) error {
	if opt.html == "" && !opt.json && !opt.short {
		opt.html = "tarn-bench-" + rep.Started.Format("2006-01-02-1504") + ".html"
	}
	if opt.html != "" {
		if err := writeFile(opt.html, rep.writeHTML); err != nil {
			return err
		}
	}
	if opt.json {
		return rep.writeJSON(out)
	}
	if err := rep.writeText(out); err != nil {
		return err
	}
	if opt.html != "" {
		_, err := fmt.Fprintf(out, "\nThe report with plots is in %s.\n", opt.html)
		return err
	}
	return nil
}

func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return f.Close()
}
