// Package driver loads packages and runs the analyser on them without go vet. It type-checks from source only
// the requested packages and those between them and package tarn, each once for all modules; the others come
// from the compiler's export data.
package driver

import (
	"cmp"
	"errors"
	"fmt"
	"go/types"
	"go/version"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"golang.org/x/tools/go/packages"
)

// tarnPath is the package whose importers are loaded from source.
const tarnPath = "github.com/tarn-go/tarn"

// A Unit is one package to analyse.
type Unit struct {
	*packages.Package
	// Reported is set for packages whose findings are wanted. The others only supply facts.
	Reported bool
	Result   any // the analyser's result
	deps     []*Unit
}

// Config says what to load.
type Config struct {
	Dir      string   // of the module or workspace; "" is the current directory
	Patterns []string // as in go list; directories may be in modules without a common workspace
	Tests    bool     // test files, too
	Tags     string   // build tags, comma-separated
	Progress *Progress
	// FromSource checks the types of what the packages import from source, where the go command would compile it: that takes less time
	// if nothing is compiled yet, and more memory.
	FromSource bool
	// Paths, if it is not nil, gets the import paths of the packages and of all that they import.
	Paths map[string]bool
}

// group holds the packages of one module or workspace.
type group struct {
	Config
	wanted  map[string]bool   // IDs that match the patterns
	sources map[string]string // of the importers of package tarn: path to sameFiles
	here    map[string]bool   // paths that are loaded from source
	paths   map[string]bool   // of all packages
	loaded  []*packages.Package
}

// Load returns the packages, each after those it imports.
func Load(config Config) ([]*Unit, error) {
	configs, err := config.groups()
	if err != nil {
		return nil, err
	}
	groups := make([]*group, len(configs))
	for i, c := range configs {
		groups[i] = &group{Config: c, wanted: map[string]bool{}, sources: map[string]string{}, here: map[string]bool{}, paths: map[string]bool{}}
	}
	config.Progress.next("reading the list of packages", 0)
	if err := each(groups, (*group).graph); err != nil {
		return nil, err
	}
	if config.Paths != nil {
		for _, g := range groups {
			maps.Copy(config.Paths, g.paths)
		}
	}
	// A package that several modules use is analysed for the first of them.
	first := map[string]bool{}
	for _, g := range groups {
		for path, files := range g.sources {
			if g.wanted[path] || !first[files] {
				g.here[path] = true
			}
		}
		for path := range g.here {
			first[g.sources[path]] = true
		}
	}
	config.Progress.next("compiling what the packages import, and checking their types", 0)
	if err := each(groups, (*group).load); err != nil {
		return nil, err
	}
	var list []*Unit
	var problems []error
	supplied := map[string]*Unit{}
	for _, g := range groups {
		units, err := g.order(supplied)
		list = append(list, units...)
		problems = append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		// The errors in packages do not say that this program is too old to read them.
		return list, cmp.Or(Outdated(config.Dir), err)
	}
	return list, nil
}

// Outdated returns an error if the go command in use in a directory is newer than the one that built this program: export data and the
// language may then be such that this program cannot read them.
func Outdated(dir string) error {
	cmd := exec.Command("go", "env", "GOVERSION")
	cmd.Dir = dir
	out, err := cmd.Output()
	used := strings.TrimSpace(string(out))
	if err != nil || version.Compare(version.Lang(used), version.Lang(runtime.Version())) <= 0 {
		return nil
	}
	return fmt.Errorf("this program was built by %s, and the packages need %s: build it again with the go command that is used here", runtime.Version(), used)
}

// Exists reports whether the go command finds a package from a directory.
func Exists(dir, path string) bool {
	cmd := exec.Command("go", "list", "-find", path)
	cmd.Dir = dir
	return cmd.Run() == nil
}

// each runs do for the groups, as many concurrently as there are processors.
func each(groups []*group, do func(*group) error) error {
	var all errgroup.Group
	all.SetLimit(runtime.GOMAXPROCS(0))
	for _, g := range groups {
		all.Go(func() error { return do(g) })
	}
	return all.Wait()
}

func (g *group) config(mode packages.LoadMode) *packages.Config {
	cfg := &packages.Config{Mode: mode, Dir: g.Dir, Tests: g.Tests, Env: os.Environ()}
	if g.Tags != "" {
		cfg.BuildFlags = []string{"-tags=" + g.Tags}
	}
	return cfg
}

// graph finds package tarn and the packages that import it, directly or not.
func (g *group) graph() error {
	list, err := packages.Load(g.config(packages.NeedName|packages.NeedFiles|packages.NeedImports|packages.NeedDeps), g.Patterns...)
	if err != nil {
		return err
	}
	for _, p := range list {
		g.wanted[p.ID] = true
	}
	reaches := map[*packages.Package]bool{}
	packages.Visit(list, nil, func(p *packages.Package) {
		yes := p.PkgPath == tarnPath
		for _, imp := range p.Imports {
			yes = yes || reaches[imp]
		}
		reaches[p] = yes
		g.paths[p.PkgPath] = true
		if yes && p.ID == p.PkgPath && !strings.HasSuffix(p.PkgPath, ".test") {
			g.sources[p.PkgPath] = sameFiles(p.PkgPath, p.GoFiles)
		}
	})
	return nil
}

// load type-checks the requested packages and those in here.
func (g *group) load() (err error) {
	patterns := slices.Clone(g.Patterns)
	for path := range g.here {
		if !strings.ContainsAny(path, " .") || strings.Contains(path, "/") {
			patterns = append(patterns, path)
		}
	}
	mode := packages.LoadSyntax | packages.NeedModule | packages.NeedForTest
	if g.FromSource {
		mode |= packages.NeedDeps
	}
	g.loaded, err = packages.Load(g.config(mode), patterns...)
	return err
}

// order sorts packages by imports, and marks the requested ones. Of a package and its variant with test files
// the latter is reported. supplied are the packages that earlier groups analyse, by sameFiles; order adds its
// own.
func (g *group) order(supplied map[string]*Unit) ([]*Unit, error) {
	units := map[string]*Unit{}
	var list []*Unit
	variant := map[string]bool{}
	for _, p := range g.loaded {
		if p.ID != p.PkgPath && strings.HasPrefix(p.ID, p.PkgPath+" [") && p.ForTest == p.PkgPath {
			variant[p.PkgPath] = true
		}
	}
	// Bodies of other packages, such as variants that tests recompile, were not checked.
	initial := map[*packages.Package]bool{}
	for _, p := range g.loaded {
		initial[p] = true
	}
	var visit func(p *packages.Package) *Unit
	visit = func(p *packages.Package) *Unit {
		if u, ok := units[p.ID]; ok {
			return u
		}
		u := &Unit{Package: p, Reported: g.wanted[p.ID] && !(p.ID == p.PkgPath && variant[p.PkgPath])}
		units[p.ID] = u
		for _, imp := range p.Imports {
			if d := visit(imp); d != nil {
				u.deps = append(u.deps, d)
			}
		}
		if !initial[p] || len(p.Syntax) == 0 || strings.HasSuffix(p.PkgPath, ".test") {
			units[p.ID] = nil // from export data, or generated
			if files, ok := g.sources[p.ID]; ok {
				units[p.ID] = supplied[files]
			}
			return units[p.ID]
		}
		if files, ok := g.sources[p.ID]; ok {
			supplied[files] = u
		}
		list = append(list, u)
		return u
	}
	for _, p := range g.loaded {
		visit(p)
	}
	return list, errors.Join(g.problems()...)
}

// problems is the errors of the requested packages, and of those that they import: these cannot be analysed.
func (g *group) problems() (list []error) {
	var wanted []*packages.Package
	for _, p := range g.loaded {
		if g.wanted[p.ID] {
			wanted = append(wanted, p)
		}
	}
	seen := map[string]bool{}
	packages.Visit(wanted, nil, func(p *packages.Package) {
		for _, e := range p.Errors {
			if text := e.Error(); !seen[text] {
				seen[text] = true
				list = append(list, fmt.Errorf("%s: %w", p.ID, e))
			}
		}
	})
	return list
}

// Sizes returns the type sizes that p was checked with.
func (u *Unit) Sizes() types.Sizes {
	if u.TypesSizes != nil {
		return u.TypesSizes
	}
	return types.SizesFor("gc", "amd64")
}
