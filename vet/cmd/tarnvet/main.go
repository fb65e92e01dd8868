// Command tarnvet finds mistakes in the ownership of Tarn's buffers before the program runs: leaks, uses
// after free, double frees, bytes that outlive their buffer. It finds uses of other pooled memory after it was given
// back, too. See docs/vet.md for each kind and its cure, and docs/vet-your-pool.md for pools of one's own.
//
//	tarnvet [flags] [packages]             by itself
//	go vet -vettool=$(which tarnvet) ./... under go vet, which caches results
//
// On its own it exits with 0 when nothing is found, 1 when it could not run, and 3 when there are findings, in every format.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/tarn-go/tarn/vet"
	"github.com/tarn-go/tarn/vet/internal/driver"
	"github.com/tarn-go/tarn/vet/internal/poolfile"
	"github.com/tarn-go/tarn/vet/internal/report"
)

func main() {
	if underGoVet(os.Args[1:]) {
		if err := readable(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, "tarnvet:", err)
			os.Exit(1)
		}
		unitchecker.Main(vet.Analyzer)
		return
	}
	// The process is short and its heap is the loaded program: garbage collection would take a third of the
	// time.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// underGoVet reports whether go vet runs this command: it asks for the version and the flags, then passes the
// name of a configuration file.
func underGoVet(args []string) bool {
	return len(args) > 0 && (strings.HasPrefix(args[0], "-V=") || args[0] == "-flags" || strings.HasSuffix(args[len(args)-1], ".cfg"))
}

// readable returns an error if this program is older than the go command by which it is run. go vet asks for the version first, and
// stops here once, where it would stop in each package.
func readable(arg string) error {
	if !strings.HasPrefix(arg, "-V=") {
		return nil
	}
	return driver.Outdated("")
}

type options struct {
	config  driver.Config
	format  string // "", "json" or "sarif"
	fix     bool
	explain bool
	allowed bool
}

func run(args []string, out, complaints io.Writer) int {
	var o options
	flags := flag.NewFlagSet("tarnvet", flag.ContinueOnError)
	flags.SetOutput(complaints)
	flags.StringVar(&o.config.Dir, "C", "", "change to this `directory` first")
	flags.StringVar(&o.config.Tags, "tags", "", "build `tags`, comma-separated")
	flags.BoolVar(&o.config.Tests, "test", true, "analyse test files, too")
	flags.BoolFunc("json", "print findings as a JSON array", o.formatFlag("json"))
	flags.BoolFunc("sarif", "print findings as a SARIF 2.1.0 log, which code hosts show", o.formatFlag("sarif"))
	flags.BoolVar(&o.fix, "fix", false, "apply the fixes that are mechanical")
	flags.BoolVar(&o.explain, "path", false, "print the decisions on the path to each mistake")
	contracts := flags.String("config", "", "the `file` with the contracts of the project's own pools; the default is .tarnvet.yaml in the package's directory, or in one above it")
	flags.BoolVar(&o.allowed, "directives", false, "count the //tarn: directives, and list them")
	flags.Usage = func() {
		fmt.Fprintf(complaints, "usage: tarnvet [flags] [packages]\n\nFinds ownership mistakes with Tarn's buffers. Packages may lie in several modules, such as\n./... ./tools/... where tools has a go.mod of its own. Flags:\n")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return 1
	}
	if *contracts != "" && !filepath.IsAbs(*contracts) {
		*contracts = filepath.Join(o.config.Dir, *contracts)
	}
	if err := vet.Analyzer.Flags.Set("config", *contracts); err != nil {
		fmt.Fprintln(complaints, "tarnvet:", err)
		return 1
	}
	o.config.Patterns = flags.Args()
	if len(o.config.Patterns) == 0 {
		o.config.Patterns = []string{"."}
	}
	began := time.Now()
	var progress driver.Progress
	o.config.Progress = &progress
	o.config.Paths = map[string]bool{}
	if terminal(complaints) {
		defer watch(&progress, complaints)()
	}
	units, err := driver.Load(o.config)
	if err != nil {
		fmt.Fprintln(complaints, "tarnvet:", err)
		return 1
	}
	if o.allowed {
		return list(units, out)
	}
	if unmatched(units, *contracts, o.config.Paths, complaints) {
		return 1
	}
	findings, err := driver.Run(vet.Analyzer, units, driver.NewFacts(), &progress)
	if err != nil {
		fmt.Fprintln(complaints, "tarnvet:", err)
		return 1
	}
	if o.fix {
		if findings, err = applyFixes(findings, began, out); err != nil {
			fmt.Fprintln(complaints, "tarnvet:", err)
			return 1
		}
	}
	switch o.format {
	case "json":
		err = printJSON(out, findings)
	case "sarif":
		err = printSARIF(out, findings, repository(o.config.Dir))
	default:
		o.print(out, findings)
	}
	switch {
	case err != nil:
		fmt.Fprintln(complaints, "tarnvet:", err)
		return 1
	case len(findings) > 0:
		fmt.Fprintf(complaints, "tarnvet: %d found; %s shows each kind with its cure\n", len(findings), vet.Analyzer.URL)
		return 3
	}
	return 0
}

// unmatched complains of packages that the files of contracts describe and that are none of those that were loaded. It reports whether one
// is misspelt: it does not exist, and one of a similar path does. Others may be part of another run, so that they are no error.
func unmatched(units []*driver.Unit, config string, paths map[string]bool, complaints io.Writer) (misspelt bool) {
	seen := map[string]bool{"": true}
	for _, u := range units {
		if !u.Reported || len(u.GoFiles) == 0 {
			continue
		}
		dir := filepath.Dir(u.GoFiles[0])
		file := config
		if file == "" {
			file = poolfile.Find(dir)
		}
		if seen[file] {
			continue
		}
		seen[file] = true
		set, err := poolfile.Load(file)
		if err != nil {
			continue // the analysis reports it
		}
		for _, p := range set.Unmatched(paths) {
			fmt.Fprintln(complaints, "tarnvet:", p.Text)
			wild := strings.Contains(p.Package, "*") // which package it is to mean is not known
			misspelt = misspelt || p.Nearest != "" && !wild && !driver.Exists(dir, p.Package)
		}
	}
	return misspelt
}

// formatFlag is the function of a flag that turns a format on, or off as in -json=false.
func (o *options) formatFlag(format string) func(string) error {
	return func(value string) error {
		on, err := strconv.ParseBool(value)
		switch {
		case on:
			o.format = format
		case o.format == format:
			o.format = ""
		}
		return err
	}
}

// terminal reports whether w is a terminal.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// quiet is how long a run prints nothing about its progress.
const quiet = 5 * time.Second

// watch prints how far a run is, until the returned function is called: the first run compiles what the packages import, which takes
// minutes in a large module.
func watch(p *driver.Progress, w io.Writer) (stop func()) {
	began := time.Now()
	tick := time.NewTicker(quiet)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				fmt.Fprintf(w, "tarnvet: %v: %s\n", time.Since(began).Round(time.Second), p)
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// repository is the root of the repository in which dir is, or dir if there is none.
func repository(dir string) string {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return dir
	}
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, ".git")); err == nil {
			return d
		}
		if d == filepath.Dir(d) {
			return dir
		}
	}
}

func (o *options) print(out io.Writer, findings []driver.Finding) {
	for _, f := range findings {
		fmt.Fprintf(out, "%s\n", f)
		if !o.explain {
			continue
		}
		for _, r := range f.Related {
			fmt.Fprintf(out, "\t%s: %s\n", f.Fset.Position(r.Pos), r.Message)
		}
	}
}

// A printed finding is one as -json prints it.
type printed struct {
	Package  string `json:"package"`
	Kind     string `json:"kind"` // leak, use, double, escape, copy, write, contract, comment or directive
	Position string `json:"position"`
	Message  string `json:"message"`
	Path     []at   `json:"path,omitempty"` // where the reference was taken, and the decisions on the way
	Fixable  bool   `json:"fixable,omitempty"`
}

type at struct {
	Position string `json:"position"`
	Message  string `json:"message"`
}

func printJSON(out io.Writer, findings []driver.Finding) error {
	reports := []printed{}
	for _, f := range findings {
		r := printed{Package: f.Package, Kind: f.Category, Position: f.Position.String(), Message: f.Message, Fixable: len(f.SuggestedFixes) > 0}
		for _, rel := range f.Related {
			r.Path = append(r.Path, at{f.Fset.Position(rel.Pos).String(), rel.Message})
		}
		reports = append(reports, r)
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "\t")
	return enc.Encode(reports)
}

// list prints the directives of the requested packages.
func list(units []*driver.Unit, out io.Writer) int {
	n := 0
	for _, u := range units {
		if !u.Reported {
			continue
		}
		for _, file := range u.Syntax {
			for _, d := range report.Directives(file) {
				n++
				fmt.Fprintf(out, "%s: %s\n", u.Fset.Position(d.Pos()), d.Text)
			}
		}
	}
	fmt.Fprintf(out, "%d directives\n", n)
	return 0
}
