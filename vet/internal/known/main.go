// Command known runs the analyser over code of other projects, which it downloads from the module proxy, and prints what it finds there.
//
//	go run ./internal/known           defects that were fixed: the version before, and the one with the fix
//	go run ./internal/known -modules  false reports: large modules at their newest versions, each report read and classed
//
// Each version is analysed by a process of its own, which is ended after -timeout. What the reports are is printed with -v.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	var r runner
	flag.DurationVar(&r.timeout, "timeout", 10*time.Minute, "the `time` after which the analysis of one version is given up")
	flag.StringVar(&r.only, "only", "", "only the modules whose path contains this `text`")
	modules := flag.Bool("modules", false, "print the table of false reports")
	verbose := flag.Bool("v", false, "print each report")
	child := flag.Bool("child", false, "analyse the module in the current directory, and print the result as JSON")
	flag.Parse()
	if *child {
		if err := analyse(os.Stdout, flag.Args()); err != nil {
			fmt.Fprintln(os.Stderr, "known:", err)
			os.Exit(1)
		}
		return
	}
	r.log = io.Discard
	if *verbose {
		r.log = os.Stderr
	}
	complete := false
	if *modules {
		complete = r.modules(os.Stdout, surveyed())
	} else {
		complete = r.defects(os.Stdout, defects())
	}
	if !complete {
		os.Exit(1)
	}
}

// A runner analyses versions of modules.
type runner struct {
	timeout time.Duration
	only    string
	log     io.Writer
}

// A result is what the analysis of one version found.
type result struct {
	Packages int
	Lines    int      // of the packages, without tests
	Broken   int      // packages that do not compile
	Reports  []report // in the order of files and lines
}

// A report is one finding.
type report struct {
	At      string // file and line, the file's name from the module's root
	Kind    string
	Message string
}

// version analyses the packages of one version of a module.
func (r *runner) version(module string, packages []string) (result, error) {
	var res result
	dir, err := copied(module)
	if err != nil {
		return res, err
	}
	self, err := os.Executable()
	if err != nil {
		return res, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, append([]string{"-child"}, packages...)...)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	// Older modules have no complete go.sum, and no cgo is needed.
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "CGO_ENABLED=0", "PWD="+dir)
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return res, fmt.Errorf("%s: not done in %v", module, r.timeout)
	}
	if err != nil {
		return res, fmt.Errorf("%s: %w", module, err)
	}
	if err := json.Unmarshal(out, &res); err != nil {
		return res, fmt.Errorf("%s: %w", module, err)
	}
	for _, p := range res.Reports {
		fmt.Fprintf(r.log, "%s %s: %s\n", module, p.At, p.Message)
	}
	return res, nil
}

// copied is a directory with the source of a module@version that may be changed: older modules have no go.mod, or an incomplete go.sum.
// It stays for the next run, since the go command's cache depends on the path.
func copied(module string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "tarnvet-known", filepath.FromSlash(module))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	from, err := download(module)
	if err != nil {
		return "", err
	}
	part := dir + ".part"
	if err := os.RemoveAll(part); err != nil {
		return "", err
	}
	if err := os.CopyFS(part, os.DirFS(from)); err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(part, "go.mod")); errors.Is(err, fs.ErrNotExist) {
		path, _, _ := strings.Cut(module, "@")
		if err := os.WriteFile(filepath.Join(part, "go.mod"), []byte("module "+path+"\n"), 0o600); err != nil {
			return "", err
		}
	}
	return dir, os.Rename(part, dir)
}

// download puts a module@version into the module cache, if it is not there.
func download(module string) (dir string, err error) {
	cmd := exec.Command("go", "mod", "download", "-json", module)
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	out, err := cmd.Output()
	var m struct{ Dir, Error string }
	if failed := json.Unmarshal(out, &m); failed != nil && err == nil {
		err = failed
	}
	if err != nil || m.Dir == "" {
		return "", fmt.Errorf("go mod download %s: %s", module, strings.TrimSpace(m.Error))
	}
	return m.Dir, nil
}

// defects prints the result for each defect, and returns whether all could be analysed.
func (r *runner) defects(out io.Writer, list []defect) bool {
	complete, reported, silent, counted := true, 0, 0, 0
	fmt.Fprintf(out, "| defect | before | reports | after | reports |\n|---|---|---:|---|---:|\n")
	for _, d := range list {
		if !strings.Contains(d.module, r.only) {
			continue
		}
		counted++
		before, err := r.whole(d.module+"@"+d.before, d)
		after, err2 := r.whole(d.module+"@"+d.after, d)
		for _, err := range []error{err, err2} {
			if err != nil {
				fmt.Fprintf(os.Stderr, "known: %v\n", err)
				complete = false
			}
		}
		was, is := d.count(before), d.count(after)
		if was > 0 {
			reported++
		}
		if is == 0 && err2 == nil {
			silent++
		}
		fmt.Fprintf(out, "| %s | %s | %d | %s | %d |\n", d.fix, d.before, was, d.after, is)
	}
	fmt.Fprintf(out, "\n%d of %d reported before the fix; nothing reported after it in %d.\n", reported, counted, silent)
	return complete
}

// whole is the result of one version, or an error if a package was left out: that it has no reports would say nothing.
func (r *runner) whole(module string, d defect) (result, error) {
	res, err := r.version(module, d.packages)
	if err == nil && res.Broken > 0 {
		err = fmt.Errorf("%s: %d of %d packages do not compile", module, res.Broken, res.Packages)
	}
	return res, err
}

// count is the number of reports in the files of the defect.
func (d defect) count(r result) (n int) {
	for _, p := range r.Reports {
		file, _, _ := strings.Cut(p.At, ":")
		if slices.Contains(d.files, file) {
			n++
		}
	}
	return n
}

// modules prints the result for each module, and returns whether all could be analysed and every report is classed.
func (r *runner) modules(out io.Writer, list []module) bool {
	complete, lines, wrong, counted := true, 0, 0, 0
	fmt.Fprintf(out, "| module | lines | packages | reports | real | false |\n|---|---:|---:|---:|---:|---:|\n")
	for _, m := range list {
		if !strings.Contains(m.path, r.only) {
			continue
		}
		began := time.Now()
		res, err := r.version(m.path+"@"+m.version, []string{"./..."})
		if err != nil {
			fmt.Fprintf(os.Stderr, "known: %v\n", err)
			complete = false
			continue
		}
		fmt.Fprintf(r.log, "%s: %v, %d packages do not compile\n", m.path, time.Since(began).Round(time.Second), res.Broken)
		found := map[class]int{}
		for _, p := range res.Reports {
			c := m.classes[p.At]
			found[c]++
			if c == unread {
				fmt.Fprintf(os.Stderr, "known: %s: not classed: %s: %s\n", m.path, p.At, p.Message)
				complete = false
			}
		}
		counted++
		lines += res.Lines
		wrong += found[falseReport]
		fmt.Fprintf(out, "| %s %s | %d | %d | %d | %d | %d |\n", m.path, m.version, res.Lines, res.Packages, len(res.Reports), found[realDefect], found[falseReport])
	}
	fmt.Fprintf(out, "\n%d modules, %d lines without tests, %d false reports", counted, lines, wrong)
	if wrong > 0 {
		fmt.Fprintf(out, ": one for each %d lines", lines/wrong)
	}
	fmt.Fprintln(out, ".")
	return complete
}

// relative is a position's file from the module's root, and its line.
func relative(root, file string, line int) string {
	if rel, err := filepath.Rel(root, file); err == nil {
		file = filepath.ToSlash(rel)
	}
	return fmt.Sprintf("%s:%d", file, line)
}
