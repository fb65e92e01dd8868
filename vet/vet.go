// Package vet finds mistakes in the ownership of Tarn's buffers before the program runs: references
// that are not freed, used after they were freed or given away, or freed twice; bytes that outlive
// their buffer; containers copied by value; writes to shared bytes; and comments that do not say,
// or say wrongly, who frees.
//
// [Analyzer] is an analysis.Analyzer. Command tarnvet runs it, by itself or under go vet. docs/vet.md
// shows each kind of mistake with its cure.
//
// The effects of a function on a reference are inferred from its body, or read from its doc comment in the
// wording that package tarn's documentation defines. When neither says enough, nothing is reported: a false
// report costs its reader more than a missed mistake.
package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"reflect"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/contracts"
	"github.com/tarn-go/tarn/vet/internal/copies"
	"github.com/tarn-go/tarn/vet/internal/kinds"
	"github.com/tarn-go/tarn/vet/internal/pools"
	"github.com/tarn-go/tarn/vet/internal/refs"
	"github.com/tarn-go/tarn/vet/internal/report"
)

// Analyzer reports mistakes in the ownership of references to Tarn's memory, and uses of memory that was given back to
// another pool: sync.Pool, those that are known, and those that the project's .tarnvet.yaml describes. Its flag config
// names that file; without it, the file is looked for in the package's directory and in those above it.
var Analyzer = &analysis.Analyzer{
	Name:      "tarnvet",
	Doc:       "find ownership mistakes with Tarn's buffers and with other pooled memory: leaks, uses after free, double frees, escaping bytes, copies, shared writes",
	URL:       "https://github.com/tarn-go/tarn/blob/main/docs/vet.md",
	FactTypes: []analysis.Fact{new(contracts.Contract), new(pools.Summary)},
	// For users that need to know which code was left out, and why.
	ResultType: reflect.TypeFor[*Summary](),
	Flags:      flags(),
	Run:        run,
}

// A Summary is the result of Analyzer for one package.
type Summary struct {
	// Provoked are function literals that panic on purpose: they are passed to a function that recovers.
	// Nothing is reported in them.
	Provoked []ast.Node
	// Idle are calls of Free, by the position of their parenthesis, that free nothing on any path: the
	// reference was given away or freed before, or there never was one.
	Idle []token.Pos
	// Functions is how many functions and function literals handle references.
	Functions int
}

func run(pass *analysis.Pass) (any, error) {
	holds := kinds.New(pass.Pkg)
	others, err := newPools(pass)
	if err != nil {
		return nil, err
	}
	if holds == nil && others == nil || len(pass.Files) == 0 {
		return new(Summary), nil
	}
	reports, sites := report.New(pass), report.Index(pass.Files)
	fns := functions(pass)
	var found refs.Summary
	if holds != nil {
		tarn := refs.New(pass, holds, sites, reports)
		fns = code.Ordered(fns, tarn.Reached)
		found = tarn.Run(fns)
		copies.Check(pass, holds, reports)
	} else {
		fns = code.Ordered(fns, nil)
	}
	if others != nil {
		checkPools(pass, others, fns, sites, reports)
	}
	reports.Unused()
	return &Summary{Provoked: found.Provoked, Idle: found.Idle, Functions: found.Functions}, nil
}

// functions makes the SSA form of a package, and returns its functions and their literals. Imports need no bodies, and
// packages that are imported by others alone are not needed.
func functions(pass *analysis.Pass) []*ssa.Function {
	prog := ssa.NewProgram(pass.Fset, 0)
	seen := map[*types.Package]bool{nil: true, pass.Pkg: true}
	add := func(p *types.Package) {
		if !seen[p] {
			seen[p] = true
			prog.CreatePackage(p, nil, nil, true)
		}
	}
	for _, imp := range pass.Pkg.Imports() {
		add(imp)
	}
	// What an import returns may be of a package that is not imported itself.
	for _, obj := range pass.TypesInfo.Uses {
		add(obj.Pkg())
	}
	pkg := prog.CreatePackage(pass.Pkg, pass.Files, pass.TypesInfo, false)
	pkg.Build()
	var all []*ssa.Function
	var list func(fn *ssa.Function)
	list = func(fn *ssa.Function) {
		if fn == nil {
			return
		}
		all = append(all, fn)
		for _, anon := range fn.AnonFuncs {
			list(anon)
		}
	}
	for _, file := range pass.Files {
		for _, d := range file.Decls {
			if d, ok := d.(*ast.FuncDecl); ok {
				if obj, ok := pass.TypesInfo.Defs[d.Name].(*types.Func); ok {
					list(prog.FuncValue(obj))
				}
			}
		}
	}
	if init := pkg.Func("init"); init != nil {
		for _, anon := range init.AnonFuncs {
			list(anon)
		}
	}
	return all
}
