// Package refs follows the references to Tarn's memory through each function, path by path, and reports those that are leaked, used after
// they ended, freed twice, or outlived by their bytes. What a function does with its arguments is inferred from its body, or read from its
// doc comment, and exported as a fact (contracts.Contract).
//
// The parts: [Checker] is one package; function one function; a state is what is known at one point of one path (state.go), and block and
// step run an instruction on it (flow.go, step.go). Memory is in memory.go, calls and their effects in call.go and effect.go, results in
// result.go, bytes in views.go, conditions in cond.go, function literals in closure.go and callback.go. infer.go derives the contract of a
// function from the states at its returns. fields.go and owners.go look at a package as a whole.
package refs

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/contracts"
	"github.com/tarn-go/tarn/vet/internal/kinds"
	"github.com/tarn-go/tarn/vet/internal/report"
)

// A Summary is what the analysis of a package found besides mistakes.
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

// Checker checks one package.
type Checker struct {
	pass      *analysis.Pass
	kinds     *kinds.Types
	sites     map[token.Pos]report.Site
	contracts map[*types.Func]*contracts.Contract
	imported  map[*types.Func]*contracts.Contract
	anon      map[*ssa.Function]*contracts.Contract
	panics    map[*ssa.Function]bool // literals that panic on purpose
	implement map[*types.Func][]*types.Func
	filled    map[field]token.Pos // fields in which references are stored, and the first position
	bytesOf   map[field]int       // fields that have the bytes of a Buffer in another field of the struct, and that one's index
	told      map[ssa.Value]bool  // variables and slices of which a leak has been reported
	reports   *report.Reporter
	summary   Summary
}

// New returns a Checker of a package, with the positions of its calls. It reads the contracts in doc comments.
func New(pass *analysis.Pass, holds *kinds.Types, sites map[token.Pos]report.Site, reports *report.Reporter) *Checker {
	c := &Checker{
		pass: pass, kinds: holds, sites: sites,
		contracts: map[*types.Func]*contracts.Contract{}, imported: map[*types.Func]*contracts.Contract{}, anon: map[*ssa.Function]*contracts.Contract{}, panics: map[*ssa.Function]bool{},
		implement: map[*types.Func][]*types.Func{}, filled: map[field]token.Pos{}, told: map[ssa.Value]bool{}, reports: reports,
	}
	c.declarations()
	return c
}

// Run reports the mistakes in the package's functions, of which callees come before their callers, and exports contracts.
func (c *Checker) Run(fns []*ssa.Function) Summary {
	c.findBytes(fns)
	for _, fn := range fns {
		c.function(fn)
	}
	c.unfreed(fns)
	c.unended(fns)
	for fn, con := range c.contracts {
		if con.Says() {
			c.pass.ExportObjectFact(fn, con)
		}
	}
	return c.summary
}

// helperBlocks bounds the functions without references that are analysed for their effect on errors: test
// helpers are short.
const helperBlocks = 12

// function checks one function and records its contract.
func (c *Checker) function(fn *ssa.Function) {
	mentions := c.mentions(fn)
	obj, _ := fn.Object().(*types.Func)
	if fact := new(contracts.Contract); obj != nil && len(fn.Blocks) == 0 && c.pass.ImportObjectFact(obj, fact) {
		c.contracts[obj] = fact // the body was left out; the contract is known
		return
	}
	if !mentions && (len(fn.Blocks) > helperBlocks || !aboutErrors(fn.Signature)) {
		if con := c.passes(fn, nil); obj != nil && con != nil && c.contracts[obj] == nil {
			c.contracts[obj] = con
		}
		return
	}
	if mentions {
		c.summary.Functions++
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
	f.unfreedHoards()
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

func (c *Checker) inTarn() bool { return kinds.Implements(c.pass.Pkg) }

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
		if code.IsFunc(v.Type()) {
			return true
		}
	}
	return false
}

// mentions reports whether a function handles references at all.
func (c *Checker) mentions(fn *ssa.Function) bool {
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
func (c *Checker) contractOf(call *ssa.CallCommon) *contracts.Contract {
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

func (c *Checker) lookup(fn *types.Func) *contracts.Contract {
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
