// Command ports type-checks packages, and their tests, for other platforms, which it is given as GOOS/GOARCH:
//
//	go run ./ci/internal/ports linux/386 windows/amd64 -- ./... ./rpc/...
//
// All that a package imports is read from source, without the bodies of other modules' functions, so nothing is compiled: go build for five
// platforms compiles the standard library five times. What a compiler alone finds, such as an array too large for 32 bits, it does not find.
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
	"runtime"
	"slices"
	"strings"
	"sync"
)

func main() {
	at := slices.Index(os.Args, "--")
	if at < 2 {
		fmt.Fprintln(os.Stderr, "usage: ports GOOS/GOARCH... -- PACKAGE...")
		os.Exit(2)
	}
	c := newChecker("")
	failed := false
	for _, port := range os.Args[1:at] {
		n, err := c.check(port, os.Args[at+1:])
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

// listed is what go list says of a package.
type listed struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	SFiles     []string // assembly
	ImportMap  map[string]string
	Module     *struct {
		GoVersion string
		Main      bool
	}
	Error *struct{ Err string }
}

// checker type-checks packages for one platform after the other. Files that several have are parsed once.
type checker struct {
	dir   string // where go list runs
	fset  *token.FileSet
	files map[string]*parsed
}

type parsed struct {
	file *ast.File
	err  error
}

func newChecker(dir string) *checker {
	return &checker{dir: dir, fset: token.NewFileSet(), files: map[string]*parsed{}}
}

// check type-checks the packages that patterns name for a port, and returns how many packages of their modules there are, tests included.
func (c *checker) check(port string, patterns []string) (int, error) {
	goos, goarch, ok := strings.Cut(port, "/")
	sizes := types.SizesFor("gc", goarch)
	if !ok || sizes == nil {
		return 0, errors.New("no such platform")
	}
	pkgs, err := c.list(goos, goarch, patterns)
	if err != nil {
		return 0, err
	}
	c.parse(pkgs)
	done := map[string]*types.Package{"unsafe": types.Unsafe}
	var found []error
	n := 0
	for _, p := range pkgs { // each after those that it imports
		if p.ImportPath == "unsafe" {
			continue
		}
		if p.Error != nil {
			found = append(found, fmt.Errorf("%s: %s", p.ImportPath, p.Error.Err))
			continue
		}
		ours := p.Module != nil && p.Module.Main
		if ours {
			n++
		}
		var files []*ast.File
		for _, name := range p.GoFiles {
			f := c.files[filepath.Join(p.Dir, name)]
			if f.err != nil {
				found = append(found, f.err)
			} else {
				files = append(files, f.file)
			}
		}
		config := types.Config{
			Importer:         importer{p.ImportMap, done},
			Sizes:            sizes,
			IgnoreFuncBodies: !ours,
			Error:            func(err error) { found = append(found, err) }, // of other modules outside of function bodies
		}
		if p.Module != nil && p.Module.GoVersion != "" {
			config.GoVersion = "go" + p.Module.GoVersion
		}
		path, _, _ := strings.Cut(p.ImportPath, " ")
		done[p.ImportPath], _ = config.Check(path, c.fset, files, nil)
		if ours && len(p.SFiles) == 0 {
			found = append(found, withoutBody(c.fset, files)...)
		}
	}
	if n == 0 {
		found = append(found, errors.New("no package of a module here"))
	}
	return n, errors.Join(found...)
}

// list is what go list says of the packages, of their tests, and of what both import, each after what it imports.
func (c *checker) list(goos, goarch string, patterns []string) ([]*listed, error) {
	cmd := exec.Command("go", append([]string{"list", "-e", "-deps", "-test", "-json=ImportPath,Dir,GoFiles,SFiles,ImportMap,Module,Error", "--"}, patterns...)...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	var pkgs []*listed
	for d := json.NewDecoder(out); ; {
		p := new(listed)
		if err = d.Decode(p); err != nil {
			break
		}
		if !strings.HasSuffix(p.ImportPath, ".test") { // the program that runs a package's tests
			pkgs = append(pkgs, p)
		}
	}
	if err == io.EOF {
		err = nil
	}
	if err := errors.Join(err, cmd.Wait()); err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, &complaint)
	}
	return pkgs, nil
}

// parse reads the packages' files that have not been read.
func (c *checker) parse(pkgs []*listed) {
	names := make(chan string)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for name := range names {
				file, err := parser.ParseFile(c.fset, name, nil, parser.SkipObjectResolution)
				mu.Lock()
				c.files[name] = &parsed{file, err}
				mu.Unlock()
			}
		})
	}
	asked := map[string]bool{}
	for _, p := range pkgs {
		for _, name := range p.GoFiles {
			name = filepath.Join(p.Dir, name)
			mu.Lock()
			known := asked[name] || c.files[name] != nil
			mu.Unlock()
			if !known {
				asked[name] = true
				names <- name
			}
		}
	}
	close(names)
	wg.Wait()
}

// importer finds packages that have been checked, by the paths in one package's import declarations.
type importer struct {
	paths map[string]string // vendored packages, and packages with their tests
	done  map[string]*types.Package
}

func (i importer) Import(path string) (*types.Package, error) {
	if mapped, ok := i.paths[path]; ok {
		path = mapped
	}
	if p := i.done[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s was not checked", path)
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
