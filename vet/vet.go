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
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/contracts"
	"github.com/tarn-go/tarn/vet/internal/kinds"
	"github.com/tarn-go/tarn/vet/internal/pools"
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

// checker checks one package.
type checker struct {
	pass      *analysis.Pass
	kinds     *kinds.Types
	sites     map[token.Pos]report.Site
	contracts map[*types.Func]*contracts.Contract
	imported  map[*types.Func]*contracts.Contract
	anon      map[*ssa.Function]*contracts.Contract
	panics    map[*ssa.Function]bool // literals that panic on purpose
	implement map[*types.Func][]*types.Func
	filled    map[field]token.Pos // fields in which references are stored, and the first position
	reports   *report.Reporter
	summary   *Summary
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
	c := &checker{
		pass: pass, kinds: holds, sites: report.Index(pass.Files),
		contracts: map[*types.Func]*contracts.Contract{}, imported: map[*types.Func]*contracts.Contract{}, anon: map[*ssa.Function]*contracts.Contract{}, panics: map[*ssa.Function]bool{},
		implement: map[*types.Func][]*types.Func{}, filled: map[field]token.Pos{}, reports: report.New(pass), summary: new(Summary),
	}
	if holds != nil {
		c.declarations()
	}
	fns := c.ordered(c.build())
	if holds != nil {
		c.tarn(fns)
	}
	if others != nil {
		c.pools(others, fns)
	}
	c.reports.Unused()
	return c.summary, nil
}

// tarn finds the mistakes with Tarn's types.
func (c *checker) tarn(fns []*ssa.Function) {
	for _, fn := range fns {
		c.function(fn)
	}
	c.unfreed(fns)
	c.copies()
	for fn, con := range c.contracts {
		if con.Says() {
			c.pass.ExportObjectFact(fn, con)
		}
	}
}

// build makes the SSA form of the package. Imports need no bodies.
func (c *checker) build() []*ssa.Function {
	prog := ssa.NewProgram(c.pass.Fset, 0)
	seen := map[*types.Package]bool{}
	var add func(p *types.Package)
	add = func(p *types.Package) {
		if p == nil || seen[p] || p == c.pass.Pkg {
			return
		}
		seen[p] = true
		prog.CreatePackage(p, nil, nil, true)
		for _, imp := range p.Imports() {
			add(imp)
		}
	}
	for _, imp := range c.pass.Pkg.Imports() {
		add(imp)
	}
	// Export data lists fewer imports than the code that uses it.
	for _, obj := range c.pass.TypesInfo.Uses {
		add(obj.Pkg())
	}
	pkg := prog.CreatePackage(c.pass.Pkg, c.pass.Files, c.pass.TypesInfo, false)
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
	for _, file := range c.pass.Files {
		for _, d := range file.Decls {
			if d, ok := d.(*ast.FuncDecl); ok {
				if obj, ok := c.pass.TypesInfo.Defs[d.Name].(*types.Func); ok {
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

// ordered sorts callees before their callers, as far as they do not call each other.
func (c *checker) ordered(fns []*ssa.Function) []*ssa.Function {
	var out []*ssa.Function
	inside := map[*ssa.Function]bool{}
	for _, fn := range fns {
		inside[fn] = true
	}
	done := map[*ssa.Function]bool{}
	var visit func(fn *ssa.Function)
	visit = func(fn *ssa.Function) {
		if done[fn] || !inside[fn] {
			return
		}
		done[fn] = true
		if outer := fn.Parent(); outer != nil {
			c.callees(outer, visit, fn)
		}
		for _, anon := range fn.AnonFuncs {
			visit(anon)
		}
		c.callees(fn, visit, nil)
		out = append(out, fn)
	}
	for _, fn := range fns {
		visit(fn)
	}
	return out
}

// callees visits the functions that fn calls or passes to calls; with passed not nil, only those that it calls
// and that take functions.
func (c *checker) callees(fn *ssa.Function, visit func(*ssa.Function), passed *ssa.Function) {
	for _, b := range fn.Blocks {
		for _, instr := range b.Instrs {
			call, ok := instr.(ssa.CallInstruction)
			if !ok || passed != nil && !passes(call.Common()) {
				continue
			}
			used := []*ssa.Function{call.Common().StaticCallee()}
			if passed == nil {
				for _, a := range call.Common().Args {
					to, _ := a.(*ssa.Function)
					used = append(used, to)
				}
				if c.kinds != nil {
					used = append(used, c.reached(call.Common(), fn.Prog)...)
				}
			}
			for _, to := range used {
				if to == nil {
					continue
				}
				if o := to.Origin(); o != nil {
					to = o
				}
				visit(to)
			}
		}
	}
}

// passes reports whether a call has a function among its arguments.
func passes(c *ssa.CallCommon) bool {
	for _, a := range c.Args {
		if isFunc(a.Type()) {
			return true
		}
	}
	return false
}

// helperBlocks bounds the functions without references that are analysed for their effect on errors: test
// helpers are short.
const helperBlocks = 12

// function checks one function and records its contract.
func (c *checker) function(fn *ssa.Function) {
	mentions := c.mentions(fn)
	obj, _ := fn.Object().(*types.Func)
	if !mentions && (len(fn.Blocks) > helperBlocks || !aboutErrors(fn.Signature)) {
		if con := c.passes(fn, nil); obj != nil && con != nil && c.contracts[obj] == nil {
			c.contracts[obj] = con
		}
		return
	}
	if mentions {
		c.summary.Functions++
	}
	if fact := new(contracts.Contract); obj != nil && len(fn.Blocks) == 0 && c.pass.ImportObjectFact(obj, fact) {
		c.contracts[obj] = fact // the body was left out; the contract is known
		return
	}
	entry := c.contracts[obj]
	if obj != nil && contracts.Primitive(c.kinds, obj) != nil && c.inTarn() {
		if r := obj.Signature().Recv(); r != nil && c.kinds.Of(r.Type()) == kinds.Handle {
			return // the implementation of references
		}
	}
	f := c.newFunction(fn, entry)
	if f.quiet = f.provoked(); f.quiet {
		c.panics[fn] = true
		if fn.Syntax() != nil {
			c.summary.Provoked = append(c.summary.Provoked, fn.Syntax())
		}
	}
	f.run()
	for pos, live := range f.frees {
		if !live && !f.cut {
			c.summary.Idle = append(c.summary.Idle, pos)
		}
	}
	inferred := c.passes(fn, f.infer())
	c.checkFree(f)
	if obj == nil {
		c.anon[fn] = inferred
		return
	}
	if entry != nil {
		for i := range entry.Params {
			if entry.Declared&(1<<i) != 0 {
				inferred.Params[i] = entry.Params[i]
			}
		}
		for i, r := range entry.Results {
			if r.Source != contracts.UnknownResult {
				inferred.Results[i] = r
			}
		}
		inferred.Declared = entry.Declared
	}
	c.contracts[obj] = inferred
}

func (c *checker) inTarn() bool {
	return strings.TrimSuffix(c.pass.Pkg.Path(), "_test") == kinds.Tarn || strings.HasPrefix(c.pass.Pkg.Path(), kinds.Tarn+"/internal/")
}

// aboutErrors reports whether a function has an error among its parameters, or returns one alone.
func aboutErrors(sig *types.Signature) bool {
	for v := range sig.Params().Variables() {
		if code.IsError(v.Type()) {
			return true
		}
	}
	n := sig.Results().Len()
	return n == 0 && sig.Params().Len() > 0 || takesFunc(sig) || n == 1 && code.IsError(sig.Results().At(0).Type())
}

func takesFunc(sig *types.Signature) bool {
	for v := range sig.Params().Variables() {
		if _, ok := v.Type().Underlying().(*types.Signature); ok {
			return true
		}
	}
	return false
}

// mentions reports whether a function handles references at all.
func (c *checker) mentions(fn *ssa.Function) bool {
	for _, p := range fn.Params {
		if c.kinds.Holds(p.Type()) {
			return true
		}
	}
	for _, v := range fn.FreeVars {
		if c.kinds.Holds(v.Type()) {
			return true
		}
	}
	for _, b := range fn.Blocks {
		for _, instr := range b.Instrs {
			v, ok := instr.(ssa.Value)
			if !ok {
				continue
			}
			if t, ok := v.Type().(*types.Tuple); ok {
				for r := range t.Variables() {
					if c.kinds.Holds(r.Type()) {
						return true
					}
				}
			} else if c.kinds.Holds(v.Type()) {
				return true
			}
		}
	}
	return false
}

// contractOf is the contract of a call; nil when it is unknown.
func (c *checker) contractOf(call *ssa.CallCommon) *contracts.Contract {
	if !call.IsInvoke() {
		if fn := call.StaticCallee(); fn != nil {
			if con, ok := c.anon[fn]; ok {
				return c.called(call, con)
			}
		}
	}
	fn := code.Callee(call)
	if fn == nil {
		return nil
	}
	return c.called(call, c.lookup(fn.Origin()))
}

func (c *checker) lookup(fn *types.Func) *contracts.Contract {
	if con := contracts.Primitive(c.kinds, fn); con != nil {
		return con
	}
	if fn.Pkg() == c.pass.Pkg {
		if con := c.contracts[fn]; con != nil {
			return con
		}
		return c.implied(fn)
	}
	if con, ok := c.imported[fn]; ok {
		return con
	}
	var con *contracts.Contract
	if fact := new(contracts.Contract); c.pass.ImportObjectFact(fn, fact) {
		con = fact
	}
	c.imported[fn] = con
	return con
}
