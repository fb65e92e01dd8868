package migrate

import (
	"context"
	"errors"
	"go/types"
	"strings"

	"golang.org/x/tools/go/packages"
)

// direction says from where programs are changed, and to where.
type direction int

const (
	toTarn direction = iota
	toGRPC
)

const (
	grpcPath = "google.golang.org/grpc"
	rpcPath  = "github.com/tarn-go/tarn/rpc"
	orcaPath = grpcPath + "/orca"
)

// pair is a package whose names are exchanged for another's of the same name.
type pair struct {
	from, to string
	api      *types.Package  // from, nil with err
	both     map[string]bool // the names of from that to has, too
	err      error           // why to cannot be imported, on the way back
}

// pairs returns the packages to exchange; the first pair is that of grpc and rpc. Of the others those are
// returned that the program imports.
func pairs(ctx context.Context, dir string, way direction, imported map[string]bool) ([]*pair, error) {
	all := []*pair{{from: grpcPath, to: rpcPath}, {from: grpcPath + "/stats/opentelemetry", to: rpcPath + "/opentelemetry"}}
	var needed []*pair
	var paths []string
	for i, q := range all {
		if way == toGRPC {
			q.from, q.to = q.to, q.from
		}
		if i == 0 || imported[q.from] {
			needed, paths = append(needed, q), append(paths, q.from, q.to)
		}
	}
	apis, err := packages.Load(&packages.Config{Context: ctx, Dir: dir, Mode: packages.NeedName | packages.NeedTypes | packages.NeedImports}, paths...)
	if err != nil {
		return nil, err
	}
	found := map[string]*packages.Package{}
	for _, pkg := range apis {
		found[pkg.PkgPath] = pkg
	}
	for i, q := range needed {
		for _, path := range []string{q.from, q.to} {
			switch pkg := found[path]; {
			case pkg == nil:
				q.err = required(path, "no module provides "+path)
			case len(pkg.Errors) > 0:
				cause, _, _ := strings.Cut(pkg.Errors[0].Msg, "; to add") // there, go get has neither the tests' requirements nor their sums
				q.err = required(path, cause)
			}
		}
		if q.err != nil {
			if i == 0 || way == toTarn { // nothing is changed that would then not compile
				return nil, q.err
			}
			continue
		}
		q.api, q.both = found[q.from].Types, map[string]bool{}
		for _, name := range q.api.Scope().Names() {
			o := found[q.to].Types.Scope().Lookup(name)
			q.both[name] = o != nil && o.Exported()
		}
	}
	return needed, nil
}

// required is the error of a package that cannot be imported.
func required(path, cause string) error {
	text := cause + ": run go get -t " + path + " ./..."
	if strings.HasPrefix(path, rpcPath) {
		text += " (before v0.1.0: docs/getting-started.md#from-a-clone)"
	}
	return errors.New(text)
}
