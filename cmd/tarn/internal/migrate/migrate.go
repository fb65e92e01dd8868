// Package migrate is the command "tarn migrate": it changes programs from grpc-go's client and server to
// package rpc, and lists what has to be changed by hand.
package migrate

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
)

const usage = `usage: tarn migrate [-n] [PACKAGES]

Changes Go packages (./... unless given) from google.golang.org/grpc's clients and servers to
github.com/tarn-go/tarn/rpc: constructors, options, types and imports. Arguments for a library's
*grpc.ClientConn are wrapped in rpc.AsGRPC. Generated files are not changed. Places that it cannot change
are listed, and so are those that no longer compile. The module must require package rpc already:

    go get github.com/tarn-go/tarn/rpc

`

const (
	grpcPath = "google.golang.org/grpc"
	rpcPath  = "github.com/tarn-go/tarn/rpc"
)

// errLeft is the command's error when something is left to do by hand.
var errLeft = errors.New("some places have to be changed by hand")

// Run runs the command and returns its exit status.
func Run(ctx context.Context, args []string, std cli.Streams) int {
	var write = true
	flags := flag.NewFlagSet("tarn migrate", flag.ContinueOnError)
	flags.BoolFunc("n", "write nothing: only say what would change", func(string) error { write = false; return nil })
	patterns, err := cli.Parse(flags, args, usage, std.Out)
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	return cli.Finish("tarn migrate", err, std.Err, func() error {
		p, err := load(ctx, ".", patterns)
		if err != nil {
			return err
		}
		files := p.rewrite()
		if write {
			for name, src := range files {
				if err := os.WriteFile(name, src, 0o666); err != nil {
					return err
				}
			}
		}
		return p.report(ctx, std.Out, files)
	})
}

// program is the packages to change.
type program struct {
	dir      string
	patterns []string
	pkgs     []*packages.Package
	theirs   map[string]bool // names of package grpc that package rpc has too
	own      map[string]bool // import paths of pkgs
	changes  map[string][]edit
	places   map[string]int // changed, by file
	left     []string
}

const mode = packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
	packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo

func load(ctx context.Context, dir string, patterns []string) (*program, error) {
	p := &program{dir: dir, patterns: patterns, own: map[string]bool{}, changes: map[string][]edit{}, places: map[string]int{}}
	pkgs, err := packages.Load(&packages.Config{Context: ctx, Dir: dir, Mode: mode, Tests: true}, patterns...)
	if err != nil {
		return nil, err
	}
	for _, pkg := range pkgs {
		for _, e := range pkg.Errors {
			return nil, fmt.Errorf("package %s does not compile: %v", pkg.PkgPath, e)
		}
		p.pkgs = append(p.pkgs, pkg)
		p.own[pkg.PkgPath] = true
	}
	apis, err := packages.Load(&packages.Config{Context: ctx, Dir: dir, Mode: packages.NeedName | packages.NeedTypes | packages.NeedImports}, grpcPath, rpcPath)
	if err != nil {
		return nil, err
	}
	scopes := map[string]*packages.Package{}
	for _, pkg := range apis {
		if len(pkg.Errors) > 0 {
			return nil, fmt.Errorf("%v (the module must require both: go get %s)", pkg.Errors[0], rpcPath)
		}
		scopes[pkg.PkgPath] = pkg
	}
	p.theirs = map[string]bool{}
	for _, name := range scopes[grpcPath].Types.Scope().Names() {
		o := scopes[rpcPath].Types.Scope().Lookup(name)
		p.theirs[name] = o != nil && o.Exported()
	}
	return p, nil
}

// report prints what has changed, what could not be changed, and what no longer compiles.
func (p *program) report(ctx context.Context, out io.Writer, files map[string][]byte) error {
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if _, err := fmt.Fprintf(out, "%s: %d changes\n", name, p.places[name]); err != nil {
			return err
		}
	}
	pkgs, err := packages.Load(&packages.Config{Context: ctx, Dir: p.dir, Mode: mode, Tests: true, Overlay: files}, p.patterns...)
	if err != nil {
		return err
	}
	left := p.left
	for _, pkg := range pkgs {
		for _, e := range pkg.Errors {
			left = append(left, e.Error())
		}
	}
	slices.Sort(left)
	left = slices.Compact(left)
	if len(left) == 0 {
		return nil
	}
	if _, err := fmt.Fprintf(out, "to be changed by hand:\n  %s\n", strings.Join(left, "\n  ")); err != nil {
		return err
	}
	return errLeft
}
