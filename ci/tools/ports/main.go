// Command ports type-checks packages, with their tests, for other platforms, and runs the analyzers of go vet on them.
//
//	ports GOOS/GOARCH,... PATTERN...
//
// It says what `go vet` says with GOOS and GOARCH set. But go vet compiles everything that the packages import, for each
// platform: of five platforms that is a fifth of the time of make test. Here the packages of other modules are type-checked from
// source without the bodies of their functions, and nothing is compiled. Cgo is off.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("ports: ")
	if len(os.Args) < 3 {
		log.Fatal("usage: ports GOOS/GOARCH,... PATTERN...")
	}
	root, err := os.Getwd()
	if err != nil {
		log.Fatal(err)
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

// sources parses files, each once: most are the same on every platform.
type sources struct {
	root   string // of the repository, with a separator at its end
	fset   *token.FileSet
	parsed map[string]*ast.File
}

// ours reports whether a folder is in the repository.
func (s *sources) ours(dir string) bool {
	return strings.HasPrefix(dir+string(filepath.Separator), s.root)
}

func (s *sources) parse(path string) (*ast.File, error) {
	if f, ok := s.parsed[path]; ok {
		return f, nil
	}
	mode := parser.AllErrors | parser.SkipObjectResolution
	if s.ours(path) {
		mode |= parser.ParseComments
	}
	f, err := parser.ParseFile(s.fset, path, nil, mode)
	if err == nil {
		s.parsed[path] = f
	}
	return f, err
}

// listed is what go list says of a package.
type listed struct {
	ImportPath, Name, Dir, ForTest  string
	DepOnly                         bool
	GoFiles, IgnoredGoFiles, SFiles []string
	ImportMap                       map[string]string // from what the source says to the package's ImportPath
	Module                          *packages.Module
	Error                           *struct{ Err string }
}

// vet checks the packages that the patterns match, for one platform.
func vet(s *sources, platform string, patterns []string) error {
	goos, goarch, _ := strings.Cut(platform, "/")
	sizes := types.SizesFor("gc", goarch)
	if sizes == nil {
		return fmt.Errorf("%s is no architecture", goarch)
	}
	all, err := list(goos, goarch, patterns)
	if err != nil {
		return err
	}
	c := &check{sources: s, sizes: sizes, listed: map[string]*listed{}, done: map[string]*packages.Package{}}
	tested := map[string]bool{} // packages that are vetted together with their tests
	for _, p := range all {
		c.listed[p.ImportPath] = p
		if path, _, ok := strings.Cut(p.ImportPath, " ["); ok && path == p.ForTest {
			tested[path] = true
		}
	}
	var wanted []*packages.Package
	for _, p := range all {
		pkg, err := c.load(p.ImportPath)
		if err != nil {
			return err
		}
		if !p.DepOnly && s.ours(p.Dir) && !tested[p.ImportPath] && !strings.HasSuffix(p.ImportPath, ".test") {
			wanted = append(wanted, pkg)
		}
	}
	if len(c.errs) > 0 {
		return errors.Join(c.errs...)
	}
	if len(wanted) == 0 {
		return errors.New("the patterns match no packages")
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
	fmt.Printf("%d packages, and %d that they import\n", len(wanted), len(all)-len(wanted))
	return nil
}

// list has the packages that the patterns match, their tests, and all that they import.
func list(goos, goarch string, patterns []string) ([]*listed, error) {
	fields := "-json=ImportPath,Name,Dir,ForTest,DepOnly,GoFiles,IgnoredGoFiles,SFiles,ImportMap,Module,Error"
	cmd := exec.Command("go", append([]string{"list", "-deps", "-test", fields}, patterns...)...)
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var all []*listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		p := new(listed)
		if err := d.Decode(p); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		if p.Error != nil {
			return nil, fmt.Errorf("%s: %s", p.ImportPath, p.Error.Err)
		}
		all = append(all, p)
	}
}

// check type-checks the packages of one platform.
type check struct {
	*sources
	sizes  types.Sizes
	listed map[string]*listed
	done   map[string]*packages.Package
	errs   []error
}

// load type-checks a package, after those that it imports.
func (c *check) load(path string) (*packages.Package, error) {
	if pkg, ok := c.done[path]; ok {
		return pkg, nil
	}
	p, ok := c.listed[path]
	if !ok {
		return nil, fmt.Errorf("go list does not list %s", path)
	}
	ours := c.ours(p.Dir)
	plain, _, _ := strings.Cut(path, " [")
	pkg := &packages.Package{ID: path, PkgPath: plain, Name: p.Name, Dir: p.Dir, Fset: c.fset, Module: p.Module, TypesSizes: c.sizes, Imports: map[string]*packages.Package{}}
	c.done[path] = pkg
	if strings.HasSuffix(path, ".test") {
		return pkg, nil // the main package of a test, which go test writes
	}
	for _, name := range p.GoFiles {
		name = filepath.Join(p.Dir, name)
		f, err := c.parse(name)
		if err != nil {
			return nil, err
		}
		pkg.Syntax = append(pkg.Syntax, f)
		pkg.GoFiles = append(pkg.GoFiles, name)
	}
	pkg.CompiledGoFiles = pkg.GoFiles
	for _, name := range p.SFiles {
		pkg.OtherFiles = append(pkg.OtherFiles, filepath.Join(p.Dir, name))
	}
	for _, name := range p.IgnoredGoFiles {
		pkg.IgnoredFiles = append(pkg.IgnoredFiles, filepath.Join(p.Dir, name))
	}
	conf := types.Config{
		Sizes:            c.sizes,
		IgnoreFuncBodies: !ours,
		Importer: importerFunc(func(imported string) (*types.Package, error) {
			if imported == "unsafe" {
				return types.Unsafe, nil
			}
			listedAs := imported
			if other, ok := p.ImportMap[imported]; ok {
				listedAs = other
			}
			dep, err := c.load(listedAs)
			if err != nil {
				return nil, err
			}
			if c.ours(dep.Dir) { // the facts of other modules' functions are not asked for
				pkg.Imports[imported] = dep
			}
			return dep.Types, nil
		}),
		Error: func(err error) { c.errs = append(c.errs, err) },
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		conf.GoVersion = "go" + p.Module.GoVersion
	}
	if ours {
		pkg.TypesInfo = &types.Info{
			Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
			Implicits: map[ast.Node]types.Object{}, Instances: map[*ast.Ident]types.Instance{}, Scopes: map[ast.Node]*types.Scope{},
			Selections: map[*ast.SelectorExpr]*types.Selection{}, FileVersions: map[*ast.File]string{},
		}
	}
	// Errors have been noted by conf.Error.
	pkg.Types, _ = conf.Check(plain, c.fset, pkg.Syntax, pkg.TypesInfo)
	return pkg, nil
}

type importerFunc func(path string) (*types.Package, error)

func (f importerFunc) Import(path string) (*types.Package, error) { return f(path) }
