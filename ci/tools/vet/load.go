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
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

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
	if err != nil {
		return nil, err
	}
	if !s.ours(path) {
		withoutBodies(f)
	}
	s.parsed[path] = f
	return f, nil
}

// withoutBodies removes the bodies of functions that cannot be wrappers of fmt.Printf, which have a last parameter ...any. Of what
// go vet says, the bodies of imported functions decide which are, and which never return. The analyzer that asks for the latter,
// lostcancel, reports more without an answer.
func withoutBodies(f *ast.File) {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		if params := fn.Type.Params.List; len(params) > 0 {
			if _, variadic := params[len(params)-1].Type.(*ast.Ellipsis); variadic {
				continue
			}
		}
		body := fn.Body
		fn.Body = nil
		if fn.Recv == nil && (fn.Name.Name == "init" || fn.Name.Name == "main") { // the type checker demands a body
			fn.Body = &ast.BlockStmt{Lbrace: body.Lbrace, Rbrace: body.Rbrace}
		}
	}
}

// listed is what go list says of a package.
type listed struct {
	ImportPath, Name, Dir, ForTest  string
	DepOnly                         bool
	GoFiles, IgnoredGoFiles, SFiles []string
	Imports                         []string          // ImportPaths
	ImportMap                       map[string]string // from what the source says to the package's ImportPath
	Module                          *packages.Module
	Error                           *struct{ Err string }
}

// workspace has patterns of one workspace, relative to its folder.
type workspace struct {
	dir      string
	patterns []string
}

// workspaces splits the patterns by the nearest go.work above their folders. Without one, the module in the current folder is meant.
func workspaces(patterns []string) ([]workspace, error) {
	var all []workspace
	for _, pattern := range patterns {
		folder := filepath.Clean(strings.TrimSuffix(pattern, "..."))
		dir := folder
		for dir != "." && dir != string(filepath.Separator) {
			if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
				break
			}
			dir = filepath.Dir(dir)
		}
		rel, err := filepath.Rel(dir, folder)
		if err != nil {
			return nil, err
		}
		rel = "./" + filepath.ToSlash(rel)
		if strings.HasSuffix(pattern, "...") {
			rel += "/..."
		}
		i := slices.IndexFunc(all, func(w workspace) bool { return w.dir == dir })
		if i < 0 {
			i = len(all)
			all = append(all, workspace{dir: dir})
		}
		all[i].patterns = append(all[i].patterns, rel)
	}
	return all, nil
}

// list has the packages that the patterns match, their tests, and all that they import.
func (w workspace) list(goos, goarch string) ([]*listed, error) {
	fields := "-json=ImportPath,Name,Dir,ForTest,DepOnly,GoFiles,IgnoredGoFiles,SFiles,Imports,ImportMap,Module,Error"
	cmd := exec.Command("go", append([]string{"list", "-deps", "-test", fields}, w.patterns...)...)
	cmd.Dir = w.dir
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

// check type-checks the packages of one workspace for one platform.
type check struct {
	*sources
	sizes  types.Sizes
	listed map[string]*listed
	done   map[string]*packages.Package // by ImportPath
	shared map[string]*packages.Package // those of all workspaces, by listed.key
	errs   []error
}

// load type-checks the packages, and returns those that the patterns match: of a package and its variant with tests the latter.
func (c *check) load(all []*listed) ([]*packages.Package, error) {
	tested := map[string]bool{}
	for _, p := range all {
		c.listed[p.ImportPath] = p
		if path, _, ok := strings.Cut(p.ImportPath, " ["); ok && path == p.ForTest {
			tested[path] = true
		}
	}
	var wanted []*packages.Package
	for _, p := range all {
		if strings.HasSuffix(p.ImportPath, ".test") {
			continue // the main package of a test, which go test writes
		}
		pkg, err := c.one(p.ImportPath)
		if err != nil {
			return nil, err
		}
		if !p.DepOnly && c.ours(p.Dir) && !tested[p.ImportPath] {
			wanted = append(wanted, pkg)
		}
	}
	return wanted, errors.Join(c.errs...)
}

// key identifies a package with the versions of what it imports.
func (p *listed) key(imports map[string]*packages.Package) string {
	key := p.ImportPath + "\n" + p.Dir
	for _, path := range slices.Sorted(slices.Values(p.Imports)) {
		key += fmt.Sprintf("\n%s %p", path, imports[path])
	}
	return key
}

// one type-checks a package, after those that it imports.
func (c *check) one(path string) (*packages.Package, error) {
	if pkg, ok := c.done[path]; ok {
		return pkg, nil
	}
	p, ok := c.listed[path]
	if !ok {
		return nil, fmt.Errorf("go list does not list %s", path)
	}
	for _, imported := range p.Imports {
		if _, err := c.one(imported); err != nil {
			return nil, err
		}
	}
	key := p.key(c.done)
	if pkg, ok := c.shared[key]; ok {
		c.done[path] = pkg
		return pkg, nil
	}
	plain, _, _ := strings.Cut(path, " [")
	pkg := &packages.Package{
		ID: path, PkgPath: plain, Name: p.Name, Dir: p.Dir, Fset: c.fset, Module: p.Module, TypesSizes: c.sizes, Imports: map[string]*packages.Package{},
		TypesInfo: &types.Info{
			Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
			Implicits: map[ast.Node]types.Object{}, Instances: map[*ast.Ident]types.Instance{}, Scopes: map[ast.Node]*types.Scope{},
			Selections: map[*ast.SelectorExpr]*types.Selection{}, FileVersions: map[*ast.File]string{},
		},
	}
	c.done[path], c.shared[key] = pkg, pkg
	if path == "unsafe" {
		pkg.Types = types.Unsafe
		return pkg, nil
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
	ours := c.ours(p.Dir)
	conf := types.Config{
		Sizes: c.sizes,
		Importer: importerFunc(func(imported string) (*types.Package, error) {
			listedAs := imported
			if other, ok := p.ImportMap[imported]; ok {
				listedAs = other
			}
			dep, ok := c.done[listedAs]
			if !ok {
				return nil, fmt.Errorf("go list does not list %s", listedAs)
			}
			pkg.Imports[imported] = dep
			return dep.Types, nil
		}),
		// Without the bodies, imports are not used.
		Error: func(err error) {
			if te, ok := err.(types.Error); ours || !ok || !te.Soft {
				c.errs = append(c.errs, err)
			}
		},
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		conf.GoVersion = "go" + p.Module.GoVersion
	}
	// Errors have been noted by conf.Error.
	pkg.Types, _ = conf.Check(plain, c.fset, pkg.Syntax, pkg.TypesInfo)
	return pkg, nil
}

type importerFunc func(path string) (*types.Package, error)

func (f importerFunc) Import(path string) (*types.Package, error) { return f(path) }
