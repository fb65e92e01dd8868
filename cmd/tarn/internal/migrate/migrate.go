// Package migrate is the command "tarn migrate": it changes programs from grpc-go's client and server to
// package rpc, or back, and lists what has to be changed by hand.
package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/natefinch/atomic"
	"github.com/spf13/cobra"
	"golang.org/x/tools/go/packages"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
)

// Command is the command.
func Command() *cobra.Command {
	var look, back bool
	c := &cobra.Command{Use: "migrate [PACKAGES]", Short: "change a program from grpc-go to package rpc", Long: strings.TrimSpace(`
Changes Go packages (./... unless given) from google.golang.org/grpc's clients and servers to
github.com/tarn-go/tarn/rpc: constructors, options, types and imports. Arguments for a library's
*grpc.ClientConn are wrapped in rpc.AsGRPC. Generated files are not changed. Places that it cannot change
are listed, and so are those that no longer compile, functions of grpc-go that compile and have no effect any
more, files that build constraints exclude, and constructors that stay with grpc-go because a library prescribes
their types. The module must require package rpc already, and
package rpc/opentelemetry if it uses grpc's stats/opentelemetry:

    go get -t github.com/tarn-go/tarn/rpc ./...

With ./..., go get also adds the sums that the new requirements need, and with -t those of tests.
Until v0.1.0 is tagged, docs/migrate-grpc.md has the commands for a clone of Tarn.

go.mod and go.sum are not changed: after -back, restore them, or run go mod tidy, which keeps raised versions.`),
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, patterns []string) error {
			if len(patterns) == 0 {
				patterns = []string{"./..."}
			}
			way := toTarn
			if back {
				way = toGRPC
			}
			stop := watch(cmd.ErrOrStderr(), "compiling what the packages import, and checking their types")
			p, err := load(cmd.Context(), ".", patterns, way)
			stop()
			if err != nil {
				if outside(cmd.Context(), ".") {
					err = errors.New("there is no go.mod here, nor in a folder above")
				}
				return cli.Fail(err)
			}
			p.rewrite()
			if !look {
				if err := p.write(cmd.OutOrStdout()); err != nil {
					return cli.Fail(err)
				}
			}
			return cli.Fail(p.report(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr()))
		}}
	c.Flags().BoolVarP(&look, "dry-run", "n", false, "write nothing: list the lines that would change, and what would be left to do by hand")
	c.Flags().BoolVar(&back, "back", false, "change packages from package rpc to grpc-go")
	return c
}

// write writes the changed files. When one cannot be written, those that have been are named.
func (p *program) write(out io.Writer) error {
	names := slices.Sorted(maps.Keys(p.changed))
	for i, name := range names {
		if err := replaceFile(name, p.changed[name].src, p.changed[name].text); err != nil {
			if i > 0 {
				fmt.Fprintf(out, "changed:\n  %s\n", strings.Join(names[:i], "\n  ")) // err is returned in any case
			}
			return fmt.Errorf("%w; %d of %d files are changed, the others as they were", err, i, len(names))
		}
	}
	p.written = true
	return nil
}

// replaceFile gives a file, or the one that a symbolic link leads to, another content at once: a program that reads it, and the disk
// after a crash, have the old or the new one. It fails if the file is not what was read.
func replaceFile(name string, old, text []byte) error {
	name, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	now, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if !bytes.Equal(now, old) {
		return fmt.Errorf("%s was changed meanwhile", name)
	}
	return atomic.WriteFile(name, bytes.NewReader(text))
}

// program is the packages to change.
type program struct {
	dir       string
	patterns  []string
	way       direction
	pkgs      []*packages.Package
	pairs     []*pair
	own       map[string]bool    // import paths of pkgs
	kept      map[string]bool    // variables that have only what libraries make, by place
	satisfied []*types.Interface // those of pkgs that a library's type implements
	changed   map[string]*file   // by name
	written   bool               // changed has been written
	left      []place
	stays     []place // constructors that are not exchanged, because a library prescribes what they make
}

const mode = packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
	packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo

func load(ctx context.Context, dir string, patterns []string, way direction) (*program, error) {
	p := &program{dir: dir, patterns: patterns, way: way, own: map[string]bool{}, kept: map[string]bool{}, changed: map[string]*file{}}
	pkgs, err := packages.Load(&packages.Config{Context: ctx, Dir: dir, Mode: mode, Tests: true}, patterns...)
	if err != nil {
		return nil, err
	}
	// What an earlier run has left to be done by hand does not compile, and the way back needs only the names.
	if err := broken(pkgs); err != nil && (way == toTarn || !parsed(pkgs)) {
		return nil, err
	}
	imported := map[string]bool{}
	for _, pkg := range pkgs {
		p.pkgs = append(p.pkgs, pkg)
		p.own[pkg.PkgPath] = true
		for path := range pkg.Imports {
			imported[path] = true
		}
	}
	p.pairs, err = pairs(ctx, dir, way, imported)
	return p, err
}

// outside reports whether a folder is neither in a module nor in a workspace.
func outside(ctx context.Context, dir string) bool {
	cmd := exec.CommandContext(ctx, "go", "env", "GOMOD", "GOWORK")
	cmd.Dir = dir
	out, err := cmd.Output()
	found := strings.Fields(string(out))
	return err == nil && len(found) > 0 && found[0] == os.DevNull && (len(found) == 1 || found[1] == "off")
}

// broken is the first error of the packages, nil if there is none. Those of imported packages are first: a sum that go.mod's requirements
// need and go.sum lacks is an error of the imported package, of which the importing one only says that it cannot be imported.
func broken(pkgs []*packages.Package) (err error) {
	packages.Visit(pkgs, nil, func(pkg *packages.Package) {
		if err == nil && len(pkg.Errors) > 0 {
			err = fmt.Errorf("package %s does not compile: %v", pkg.PkgPath, pkg.Errors[0])
		}
	})
	return err
}

// parsed reports whether there is a file in any package.
func parsed(pkgs []*packages.Package) bool {
	return slices.ContainsFunc(pkgs, func(pkg *packages.Package) bool { return len(pkg.Syntax) > 0 })
}

// report prints what has changed, what stays, what could not be changed, and what no longer compiles. Lines are those of
// the new files if they have been written, otherwise those of the old ones.
func (p *program) report(ctx context.Context, out, progress io.Writer) error {
	overlay := map[string][]byte{}
	var names []string
	for name, f := range p.changed {
		overlay[name] = f.text
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if _, err := io.WriteString(out, p.summary(p.changed[name])); err != nil {
			return err
		}
	}
	pkgs := p.pkgs
	if len(overlay) > 0 {
		stop := watch(progress, "checking that the changed packages compile")
		var err error
		pkgs, err = packages.Load(&packages.Config{Context: ctx, Dir: p.dir, Mode: mode, Tests: true, Overlay: overlay}, p.patterns...)
		stop()
		if err != nil {
			return err
		}
	}
	if len(p.stays) > 0 {
		if _, err := fmt.Fprintf(out, "stays with grpc-go, because a library prescribes its type:\n  %s\n", strings.Join(p.staying(), "\n  ")); err != nil {
			return err
		}
	}
	left := p.places(pkgs)
	if len(left) == 0 {
		if len(names) == 0 && len(p.stays) == 0 {
			_, err := fmt.Fprintln(out, "nothing is to be changed")
			return err
		}
		return nil
	}
	if _, err := fmt.Fprintf(out, "to be changed by hand:\n  %s\n", strings.Join(left, "\n  ")); err != nil {
		return err
	}
	return errLeft
}

// summary says how many places of a file have changed. If it has not been written, it says how many would, and has their lines.
func (p *program) summary(f *file) string {
	noun := "places"
	if f.places == 1 {
		noun = "place"
	}
	if p.written {
		return fmt.Sprintf("%s: %d %s changed\n", f.name, f.places, noun)
	}
	return fmt.Sprintf("%s: %d %s would change\n", f.name, f.places, noun) + f.preview()
}

// errLeft is the command's error when something is left to do by hand.
var errLeft = errors.New("some places have to be changed by hand")
