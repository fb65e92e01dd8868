// Package driver loads packages and runs the analyser over them without go vet. It type-checks from
// source only the packages that are asked about and those between them and package tarn; the rest come
// from the compiler's export data, which makes a run over a repository a matter of seconds.
package driver

import (
	"errors"
	"fmt"
	"go/types"
	"os"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// tarnPath is the package whose importers are loaded from source.
const tarnPath = "github.com/tarn-go/tarn"

// A Unit is one package to analyse.
type Unit struct {
	*packages.Package
	// Reported is set for packages whose findings are wanted. The others supply facts.
	Reported bool
	deps     []*Unit
}

// Config says what to load.
type Config struct {
	Dir      string   // of the module or workspace; "" is the current directory
	Patterns []string // as go list takes them
	Tests    bool     // test files, too
	Tags     string   // build tags, comma-separated
}

// Load returns the packages, each after those it imports.
func Load(config Config) ([]*Unit, error) {
	var flags []string
	if config.Tags != "" {
		flags = append(flags, "-tags="+config.Tags)
	}
	cfg := &packages.Config{
		Mode: packages.NeedName | packages.NeedImports | packages.NeedDeps, Dir: config.Dir, Tests: config.Tests,
		BuildFlags: flags, Env: os.Environ(),
	}
	graph, err := packages.Load(cfg, config.Patterns...)
	if err != nil {
		return nil, err
	}
	wanted := map[string]bool{}
	for _, p := range graph {
		wanted[p.ID] = true
	}
	between := importers(graph)
	patterns := slices.Clone(config.Patterns)
	for _, path := range between {
		if !strings.ContainsAny(path, " .") || strings.Contains(path, "/") {
			patterns = append(patterns, path)
		}
	}
	cfg.Mode = packages.LoadSyntax | packages.NeedModule | packages.NeedForTest
	cfg.Tests = config.Tests
	loaded, err := packages.Load(cfg, patterns...)
	if err != nil {
		return nil, err
	}
	return order(loaded, wanted)
}

// importers lists the packages that import package tarn, directly or not, and itself.
func importers(graph []*packages.Package) []string {
	reaches := map[*packages.Package]bool{}
	var paths []string
	packages.Visit(graph, nil, func(p *packages.Package) {
		yes := p.PkgPath == tarnPath
		for _, imp := range p.Imports {
			yes = yes || reaches[imp]
		}
		reaches[p] = yes
		if yes && p.ID == p.PkgPath && !strings.HasSuffix(p.PkgPath, ".test") {
			paths = append(paths, p.PkgPath)
		}
	})
	return paths
}

// order sorts packages by imports, and marks those that were asked for. Of a package and its variant
// with test files the latter is reported.
func order(loaded []*packages.Package, wanted map[string]bool) ([]*Unit, error) {
	units := map[string]*Unit{}
	var list []*Unit
	var problems []error
	variant := map[string]bool{}
	for _, p := range loaded {
		if p.ID != p.PkgPath && strings.HasPrefix(p.ID, p.PkgPath+" [") && p.ForTest == p.PkgPath {
			variant[p.PkgPath] = true
		}
	}
	// Bodies of other packages, such as variants that tests recompile, were not checked.
	initial := map[*packages.Package]bool{}
	for _, p := range loaded {
		initial[p] = true
	}
	var visit func(p *packages.Package) *Unit
	visit = func(p *packages.Package) *Unit {
		if u, ok := units[p.ID]; ok {
			return u
		}
		u := &Unit{Package: p, Reported: wanted[p.ID] && !(p.ID == p.PkgPath && variant[p.PkgPath])}
		units[p.ID] = u
		for _, imp := range p.Imports {
			if d := visit(imp); d != nil {
				u.deps = append(u.deps, d)
			}
		}
		if !initial[p] || len(p.Syntax) == 0 || strings.HasSuffix(p.PkgPath, ".test") {
			units[p.ID] = nil // from export data, or generated
			return nil
		}
		for _, e := range p.Errors {
			if wanted[p.ID] {
				problems = append(problems, fmt.Errorf("%s: %s", p.ID, e))
			}
		}
		list = append(list, u)
		return u
	}
	for _, p := range loaded {
		visit(p)
	}
	return list, errors.Join(problems...)
}

// Sizes returns the type sizes that p was checked with.
func (u *Unit) Sizes() types.Sizes {
	if u.TypesSizes != nil {
		return u.TypesSizes
	}
	return types.SizesFor("gc", "amd64")
}
