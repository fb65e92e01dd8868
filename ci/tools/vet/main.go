// Command vet type-checks packages, with their tests, for one platform or several, and runs the analyzers of go vet on them.
//
//	vet GOOS/GOARCH,... PATTERN...
//
// The patterns are folders, and may lie in several workspaces. It says what `go vet` says in each of them, with GOOS and GOARCH
// set. But go vet compiles everything that the packages import, for each platform and for each version that a workspace has of it,
// and runs a process for each package. Here packages are type-checked from source, each once for all workspaces with the same
// versions of what it imports, and nothing is compiled. Cgo is off.
package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"log"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("vet: ")
	if len(os.Args) < 3 {
		log.Fatal("usage: vet GOOS/GOARCH,... PATTERN...")
	}
	root, err := os.Getwd()
	if err != nil {
		log.Fatal(err)
	}
	// The process is short, and its heap is what it has loaded.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200)
	}
	s := &sources{root: root + string(filepath.Separator), fset: token.NewFileSet(), parsed: map[string]*ast.File{}}
	failed := false
	for platform := range strings.SplitSeq(os.Args[1], ",") {
		fmt.Println("vet", platform)
		if err := vet(s, platform, os.Args[2:]); err != nil {
			log.Print(err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

// vet checks the packages that the patterns match, for one platform.
func vet(s *sources, platform string, patterns []string) error {
	goos, goarch, _ := strings.Cut(platform, "/")
	sizes := types.SizesFor("gc", goarch)
	if sizes == nil {
		return fmt.Errorf("%s is no architecture", goarch)
	}
	spaces, err := workspaces(patterns)
	if err != nil {
		return err
	}
	shared := map[string]*packages.Package{}
	var wanted []*packages.Package
	for _, w := range spaces {
		all, err := w.list(goos, goarch)
		if err != nil {
			return err
		}
		c := &check{sources: s, sizes: sizes, listed: map[string]*listed{}, done: map[string]*packages.Package{}, shared: shared}
		matched, err := c.load(all)
		if err != nil {
			return err
		}
		if len(matched) == 0 {
			return fmt.Errorf("%v: the patterns match no packages", w.patterns)
		}
		wanted = append(wanted, matched...)
	}
	graph, err := checker.Analyze(suite, wanted, nil)
	if err != nil {
		return err
	}
	var complaints []error
	for _, act := range graph.Roots {
		if act.Err != nil {
			complaints = append(complaints, fmt.Errorf("%s: %s: %w", act.Package.ID, act.Analyzer.Name, act.Err))
		}
		for _, d := range act.Diagnostics {
			complaints = append(complaints, fmt.Errorf("%s: %s: %s", s.fset.Position(d.Pos), act.Analyzer.Name, d.Message))
		}
	}
	if len(complaints) > 0 {
		return errors.Join(complaints...)
	}
	fmt.Printf("%d packages, and %d that they import\n", len(wanted), len(shared)-len(wanted))
	return nil
}
