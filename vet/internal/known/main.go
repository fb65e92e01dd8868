// Command known runs the analyser over code of other projects, which it downloads from the module proxy, and prints what it finds there.
//
//	go run ./internal/known           defects that were fixed: the version before, and the one with the fix
//	go run ./internal/known -modules  false reports: large modules at their newest versions, each report read and classed
//
// Each version is analysed by a process of its own, which is ended after -timeout. What the reports are is printed with -v. The exit status
// is 0 if each defect and each report is what the lists in this package say of it.
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

	"golang.org/x/mod/modfile"
)

func main() {
	var r runner
	flag.DurationVar(&r.timeout, "timeout", 30*time.Minute, "the `time` after which the analysis of one version is given up")
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
	r.analyse = r.version
	var problems []string
	if *modules {
		problems = r.modules(os.Stdout, surveyed())
	} else {
		problems = r.defects(os.Stdout, defects())
	}
	for _, p := range problems {
		fmt.Fprintln(os.Stderr, "known:", p)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}

// A runner analyses versions of modules.
type runner struct {
	timeout time.Duration
	only    string
	log     io.Writer
	// analyse is version; tests replace it.
	analyse func(module string, packages []string) (result, error)
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
	env := environment(dir)
	if err := fetchImports(dir, env, packages); err != nil {
		return res, fmt.Errorf("%s: %w", module, err)
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
	cmd.Env = env
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
	if err := withoutNeighbours(filepath.Join(part, "go.mod")); err != nil {
		return "", err
	}
	return dir, os.Rename(part, dir)
}

// withoutNeighbours removes the replacements by directories from a go.mod file: those are in the module's repository, and not in the module.
func withoutNeighbours(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	file, err := modfile.Parse(name, text, nil)
	if err != nil {
		return err
	}
	for _, r := range slices.Clone(file.Replace) {
		if !modfile.IsDirectoryPath(r.New.Path) {
			continue
		}
		if err := file.DropReplace(r.Old.Path, r.Old.Version); err != nil {
			return err
		}
	}
	file.Cleanup()
	if text, err = file.Format(); err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o600)
}

// relative is a position's file from the module's root, and its line.
func relative(root, file string, line int) string {
	if rel, err := filepath.Rel(root, file); err == nil {
		file = filepath.ToSlash(rel)
	}
	return fmt.Sprintf("%s:%d", file, line)
}
