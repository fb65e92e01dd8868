// Command ports type-checks packages, and their tests, for other platforms, which it is given as GOOS/GOARCH:
//
//	ports linux/386 windows/amd64 -- ./... ./rpc/...
//
// All that a package imports is read from source, so nothing is compiled: go build for five platforms compiles the standard library five times.
// What a compiler alone finds, such as an array too large for 32 bits, it does not find.
package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/tools/go/packages"
)

func main() {
	dashes := slices.Index(os.Args, "--")
	if dashes < 2 {
		fmt.Fprintln(os.Stderr, "usage: ports GOOS/GOARCH... -- PACKAGE...")
		os.Exit(2)
	}
	c := newChecker("")
	failed := false
	for _, port := range os.Args[1:dashes] {
		n, err := c.check(port, os.Args[dashes+1:])
		if err != nil {
			failed = true
			fmt.Fprintf(os.Stderr, "%s: %v\n", port, err)
		}
		fmt.Printf("%s: %d packages\n", port, n)
	}
	if failed {
		os.Exit(1)
	}
}

// checker type-checks packages for one platform after the other. Files that several have are parsed once.
type checker struct {
	dir  string // where the packages are
	fset *token.FileSet

	mu    sync.Mutex
	files map[string]func() (*ast.File, error)
}

func newChecker(dir string) *checker {
	return &checker{dir: dir, fset: token.NewFileSet(), files: map[string]func() (*ast.File, error){}}
}

// parse is parser.ParseFile, once for each file.
func (c *checker) parse(fset *token.FileSet, name string, text []byte) (*ast.File, error) {
	c.mu.Lock()
	file := c.files[name]
	if file == nil {
		file = sync.OnceValues(func() (*ast.File, error) { return parser.ParseFile(fset, name, text, parser.SkipObjectResolution) })
		c.files[name] = file
	}
	c.mu.Unlock()
	return file()
}

// check type-checks the packages that patterns name for a port, and returns how many there are, tests included.
func (c *checker) check(port string, patterns []string) (int, error) {
	goos, goarch, ok := strings.Cut(port, "/")
	if !ok {
		return 0, errors.New("no such platform")
	}
	const needed = packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps |
		packages.NeedModule | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedTypesSizes
	pkgs, err := packages.Load(&packages.Config{Mode: needed, Dir: c.dir, Tests: true, Fset: c.fset, ParseFile: c.parse,
		Env: append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")}, patterns...)
	if err != nil {
		return 0, err
	}
	var found []error
	packages.Visit(pkgs, nil, func(p *packages.Package) {
		for _, err := range p.Errors {
			found = append(found, err)
		}
	})
	n := 0
	for _, p := range pkgs {
		if strings.HasSuffix(p.ID, ".test") { // the program that runs a package's tests
			continue
		}
		n++
		if len(p.OtherFiles) == 0 {
			found = append(found, withoutBody(c.fset, p.Syntax)...)
		}
	}
	if n == 0 {
		found = append(found, errors.New("no package of a module here"))
	}
	return n, errors.Join(found...)
}

// withoutBody returns an error for each function that has none, which the type checker permits and the compiler does only beside assembly.
func withoutBody(fset *token.FileSet, files []*ast.File) []error {
	var found []error
	for _, f := range files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body == nil {
				found = append(found, fmt.Errorf("%s: %s has no body", fset.Position(fn.Pos()), fn.Name.Name))
			}
		}
	}
	return found
}
