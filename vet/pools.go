package vet

import (
	"flag"
	"go/build"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/poolfile"
	"github.com/tarn-go/tarn/vet/internal/pools"
	"github.com/tarn-go/tarn/vet/internal/report"
)

// flags are those of Analyzer. The driver of an analyzer has no other way to configure it.
func flags() flag.FlagSet {
	fs := flag.NewFlagSet("tarnvet", flag.ExitOnError)
	fs.String("config", "", "the `file` with the contracts of the project's own pools; the default is "+poolfile.FileName+" in the directory of the package, or in one above it")
	return *fs
}

// loadContracts reads each file once.
type loadContracts struct {
	once sync.Map // file: func() (*poolfile.Set, error)
}

func (l *loadContracts) get(file string) (*poolfile.Set, error) {
	load, _ := l.once.LoadOrStore(file, sync.OnceValues(func() (*poolfile.Set, error) { return poolfile.Load(file) }))
	return load.(func() (*poolfile.Set, error))()
}

// newPools returns the contracts for a package, or nil if the package uses no function that has one.
func newPools(pass *analysis.Pass) (*poolfile.Set, error) {
	if len(pass.Files) == 0 || ofGo(pass) {
		return nil, nil
	}
	file := pass.Analyzer.Flags.Lookup("config").Value.String()
	if file == "" {
		file = poolfile.Find(filepath.Dir(pass.Fset.Position(pass.Files[0].Package).Filename))
	}
	set, err := sets().get(file)
	if err != nil {
		return nil, err
	}
	for _, p := range append([]*types.Package{pass.Pkg}, pass.Pkg.Imports()...) {
		if err := set.Check(p); err != nil {
			return nil, err
		}
	}
	if set.Covers(pass.Pkg.Path()) || !usesPools(pass, set) {
		return nil, nil // it implements the pool, or uses none
	}
	return set, nil
}

// sets is the cache of contracts: packages are analysed concurrently, and share one file.
var sets = sync.OnceValue(func() *loadContracts { return new(loadContracts) })

// usesPools reports whether the package refers to a function that ends a reference, or its views, by a contract or by
// what is known of its body.
func usesPools(pass *analysis.Pass, set *poolfile.Set) bool {
	seen := map[types.Object]bool{}
	for _, obj := range pass.TypesInfo.Uses {
		fn, ok := obj.(*types.Func)
		if !ok || fn.Pkg() == nil || seen[obj] {
			continue
		}
		seen[obj] = true
		for _, e := range set.Lookup(fn.Origin()) {
			if e.Effect == poolfile.Release || e.Effect == poolfile.Invalidate {
				return true
			}
		}
		if fn.Pkg() == pass.Pkg {
			continue
		}
		if sum := new(pools.Summary); pass.ImportObjectFact(fn.Origin(), sum) && len(sum.Ends) > 0 {
			return true
		}
	}
	return exportsViews(pass)
}

// exportsViews reports whether the package makes strings of bytes without copying them, for others.
func exportsViews(pass *analysis.Pass) bool {
	for _, p := range pass.Pkg.Imports() {
		if p.Path() == "unsafe" {
			return true
		}
	}
	return false
}

// ofGo reports whether a package is of Go's own distribution.
func ofGo(pass *analysis.Pass) bool {
	name := pass.Fset.Position(pass.Files[0].Package).Filename
	return strings.HasPrefix(name, filepath.Join(build.Default.GOROOT, "src")+string(filepath.Separator))
}

// checkPools finds uses of memory that was given back to a pool.
func checkPools(pass *analysis.Pass, set *poolfile.Set, fns []*ssa.Function, sites map[token.Pos]report.Site, reports *report.Reporter) {
	check := pools.Checker{
		Contracts: set,
		Fact:      func(fn *types.Func, sum *pools.Summary) bool { return pass.ImportObjectFact(fn, sum) },
		Report: func(d pools.Finding) {
			reports.Emit(analysis.Diagnostic{Pos: d.Pos, Category: d.Kind, Message: d.Message, Related: d.Related}, d.Taken)
		},
		Name: func(pos token.Pos) string {
			at := sites[pos]
			if len(at.LHS) == 0 {
				return ""
			}
			if name := types.ExprString(at.LHS[0]); name != "_" {
				return name
			}
			return ""
		},
		Where: reports.Where,
	}
	check.Run(fns, func(fn *types.Func, sum *pools.Summary) { pass.ExportObjectFact(fn, sum) })
}
