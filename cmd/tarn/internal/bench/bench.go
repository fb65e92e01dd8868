package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

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

// Run is tarn bench. It returns cli.OK, cli.Failed if a measurement or the report failed, and
// cli.Usage if the arguments are invalid.
func Run(ctx context.Context, args []string, std cli.Streams) int {
	if len(args) == 3 && args[0] == relayCommand {
		return cli.Finish("tarn bench", nil, std.Err, func() error { return runRelay(args[1], args[2]) })
	}
	opt, err := parse(args, std.Out)
	return cli.Finish("tarn bench", err, std.Err, func() error {
		rep, err := measure(ctx, opt, newProgress(std.Err))
		if err != nil {
			return err
		}
		return deliver(rep, opt, std.Out)
	})
}

func parse(args []string, out io.Writer) (options, error) {
	var opt options
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.BoolVar(&opt.short, "short", false, "a quick look: fewer cases and turns, about ten seconds")
	fs.BoolVar(&opt.json, "json", false, "print the results as JSON instead of tables")
	fs.StringVar(&opt.html, "o", "", "also write a page with plots to `file`")
	known := sections()
	var names []string
	for _, s := range known {
		names = append(names, s.name)
	}
	asked, err := cli.Parse(fs, args, usage(known), out)
	if err != nil {
		return opt, err
	}
	for _, name := range asked {
		i := slices.Index(names, name)
		if i < 0 {
			return opt, fmt.Errorf("unknown section %q (there are: %s)", name, strings.Join(names, " "))
		}
		if !slices.ContainsFunc(opt.sections, func(s section) bool { return s.name == name }) {
			opt.sections = append(opt.sections, known[i])
		}
	}
	if len(opt.sections) == 0 {
		opt.sections = known
	}
	return opt, nil
}

func usage(known []section) string {
	var b strings.Builder
	b.WriteString("usage: tarn bench [flags] [section ...]\n\nMeasures Tarn beside what programs use today. Sections (all of them if none is named):\n\n")
	for _, s := range known {
		fmt.Fprintf(&b, "  %-8s%s\n", s.name, s.title)
	}
	b.WriteString("\nFlags:\n\n")
	return b.String()
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

func deliver(rep *Report, opt options, out io.Writer) error {
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
