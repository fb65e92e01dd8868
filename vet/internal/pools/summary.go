package pools

import (
	"fmt"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/places"
	"github.com/tarn-go/tarn/vet/internal/poolfile"
)

// A Summary is what a function does with references in its arguments. It is exported between packages as a fact.
type Summary struct {
	Ends     []End
	Views    []ViewOf
	NoReturn bool
}

// An End is a reference that a function gives up: argument Arg, or with Content, what is in a part of the memory to
// which it points. Arguments are numbered as in package ssa; the variables that a literal captured follow them.
type End struct {
	Arg     int
	Content bool
	Path    []places.Step
}

// A ViewOf is a result that is bytes of an argument.
type ViewOf struct{ Result, Arg int }

// AFact makes a summary an analysis.Fact.
func (*Summary) AFact() {}

func (s *Summary) String() string { return fmt.Sprintf("ends %v, views %v", s.Ends, s.Views) }

func (s *Summary) says() bool { return s != nil && (len(s.Ends) > 0 || len(s.Views) > 0 || s.NoReturn) }

// Run analyses the functions of a package, callees first, and passes the summaries to export.
func (c *Checker) Run(fns []*ssa.Function, export func(*types.Func, *Summary)) {
	c.known, c.anon, c.others, c.seen = map[*types.Func]*Summary{}, map[*ssa.Function]*Summary{}, map[*types.Func]*Summary{}, map[report]bool{}
	for _, fn := range fns {
		if len(fn.Blocks) == 0 || !c.worth(fn) {
			continue
		}
		f := &function{Checker: c, fn: fn, objects: map[objectKey]*Object{}, parts: map[ssa.Value][]places.Path{}, leaked: leaked(fn)}
		f.run()
		sum := f.infer()
		obj, _ := fn.Object().(*types.Func)
		if obj == nil {
			c.anon[fn] = sum
		} else if sum.says() {
			c.known[obj] = sum
			export(obj, sum)
		}
	}
}

// leaked are the variables of a function whose address is stored, or captured by a literal.
func leaked(fn *ssa.Function) map[*ssa.Alloc]bool {
	out := map[*ssa.Alloc]bool{}
	for _, b := range fn.Blocks {
		for _, instr := range b.Instrs {
			a, ok := instr.(*ssa.Alloc)
			if !ok {
				continue
			}
			for _, u := range *a.Referrers() {
				switch u := u.(type) {
				case *ssa.MakeClosure:
					out[a] = out[a] || !onlyDeferred(u)
				case *ssa.Store:
					out[a] = out[a] || u.Val == ssa.Value(a)
				}
			}
		}
	}
	return out
}

// onlyDeferred reports whether a literal is only deferred, or called where it stands.
func onlyDeferred(mc *ssa.MakeClosure) bool {
	for _, u := range *mc.Referrers() {
		switch u := u.(type) {
		case *ssa.Defer:
			if u.Call.Value != ssa.Value(mc) {
				return false
			}
		case *ssa.Call:
			if u.Call.Value != ssa.Value(mc) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// worth reports whether a function calls one that ends a reference or its views, or may return bytes of an argument, or of what is in one.
func (c *Checker) worth(fn *ssa.Function) bool {
	if returnsBytes(fn) {
		return true
	}
	returns := leadToBytes(fn.Signature.Results())
	for _, b := range fn.Blocks {
		for _, instr := range b.Instrs {
			call, ok := instr.(ssa.CallInstruction)
			if !ok {
				continue
			}
			if c.ends(call.Common()) || returns && c.views(call.Common()) {
				return true
			}
		}
	}
	return false
}

// smallBlocks bounds the functions that are analysed only because they may return bytes of an argument.
const smallBlocks = 8

func returnsBytes(fn *ssa.Function) bool {
	if len(fn.Blocks) > smallBlocks {
		return false
	}
	return leadToBytes(fn.Signature.Params()) && leadToBytes(fn.Signature.Results())
}

// leadToBytes reports whether one of several types is a string or a slice.
func leadToBytes(t *types.Tuple) bool {
	for v := range t.Variables() {
		if leadsToBytes(v.Type()) {
			return true
		}
	}
	return false
}

// views reports whether a call returns bytes of an argument.
func (c *Checker) views(call *ssa.CallCommon) bool {
	for _, e := range c.Contracts.Lookup(code.Callee(call)) {
		if e.Effect == poolfile.View {
			return true
		}
	}
	sum := c.summaryOf(call)
	return sum != nil && len(sum.Views) > 0
}

func (c *Checker) ends(call *ssa.CallCommon) bool {
	fn := code.Callee(call)
	for _, e := range c.Contracts.Lookup(fn) {
		if e.Effect == poolfile.Release || e.Effect == poolfile.Invalidate {
			return true
		}
	}
	sum := c.summaryOf(call)
	return sum != nil && len(sum.Ends) > 0
}

// summaryOf is what is known of the function that a call names; nil if that is nothing.
func (c *Checker) summaryOf(call *ssa.CallCommon) *Summary {
	if call.IsInvoke() {
		return nil
	}
	if fn := call.StaticCallee(); fn != nil {
		if sum, ok := c.anon[fn]; ok {
			return sum
		}
	}
	fn := code.Callee(call)
	if fn == nil {
		return nil
	}
	if sum, ok := c.known[fn]; ok {
		return sum
	}
	if sum, ok := c.others[fn]; ok {
		return sum
	}
	var sum *Summary
	if fact := new(Summary); c.Fact(fn, fact) {
		sum = fact
	}
	c.others[fn] = sum
	return sum
}

// infer derives the function's effects on its arguments from all its paths.
func (f *function) infer() *Summary {
	sum := &Summary{}
	if f.cut {
		return sum
	}
	if len(f.exits) == 0 {
		sum.NoReturn = true
		return sum
	}
	for i, p := range f.fn.Params {
		f.endsOf(sum, i, p)
		f.viewsOf(sum, i, p)
	}
	for i, v := range f.fn.FreeVars {
		f.endsOf(sum, len(f.fn.Params)+i, v)
	}
	return sum
}

// endsOf finds what is ended of one argument.
func (f *function) endsOf(sum *Summary, i int, v ssa.Value) {
	// The argument itself.
	if o := f.objects[objectKey{v: v}]; o != nil {
		some, all := f.everyExit(func(e exit) bool { return e.s.objs[o].ended.IsValid() })
		if some && (all || f.excused(o, v)) {
			sum.Ends = append(sum.Ends, End{Arg: i})
			return
		}
	}
	// What is in the memory to which it points.
	seen := map[places.Path]bool{}
	for _, o := range f.objects {
		if !o.found || o.from.Root != v || seen[o.from.Path] {
			continue
		}
		_, all := f.everyExit(func(e exit) bool {
			b, ok := e.s.Mem[o.from]
			return ok && slices.ContainsFunc(b, func(r Ref) bool { return r.Of == o && r.Mode == Self }) && e.s.objs[o].ended.IsValid()
		})
		if all {
			seen[o.from.Path] = true
			sum.Ends = append(sum.Ends, End{Arg: i, Content: true, Path: o.from.Path.Steps()})
		}
	}
	slices.SortFunc(sum.Ends, func(a, b End) int {
		if a.Arg != b.Arg {
			return a.Arg - b.Arg
		}
		return slices.CompareFunc(a.Path, b.Path, func(x, y places.Step) int { return int(x.N - y.N) })
	})
}

func (f *function) everyExit(holds func(exit) bool) (some, all bool) {
	all = true
	for _, e := range f.exits {
		if holds(e) {
			some = true
		} else {
			all = false
		}
	}
	return some, all
}

// excused reports whether a function whose purpose is to put an argument back does not do so only if the argument is
// too large, still referenced elsewhere, or nil: the paths on which it does not depend on nothing but its arguments.
func (f *function) excused(o *Object, v ssa.Value) bool {
	for r := range f.fn.Signature.Results().Variables() {
		if code.IsError(r.Type()) || tracked(r.Type()) || code.IsBool(r.Type()) {
			return false
		}
	}
	for _, e := range f.exits {
		if e.s.objs[o].ended.IsValid() {
			continue
		}
		for step := range e.s.Trail.Back() {
			if !about(step.Branch.Cond, v, 0) {
				return false
			}
		}
		if f.passedOn(v) {
			return false
		}
	}
	return true
}

// passedOn reports whether a function stores the value, sends it, or returns it: it may have another owner.
func (f *function) passedOn(v ssa.Value) bool {
	for _, u := range *v.Referrers() {
		switch u := u.(type) {
		case *ssa.Store:
			if a, ok := u.Addr.(*ssa.Alloc); u.Val == v && !(ok && !f.leaked[a]) {
				return true
			}
		case *ssa.Send, *ssa.MapUpdate, *ssa.Return, *ssa.MakeClosure, *ssa.Go:
			return true
		}
	}
	return false
}

// about reports whether a condition depends on one argument, and on constants, package variables, channels and pointers to
// structs among the others.
func about(cond, v ssa.Value, depth int) bool {
	if depth > 10 {
		return false
	}
	next := func(w ssa.Value) bool { return about(w, v, depth+1) }
	switch c := cond.(type) {
	case *ssa.Const, *ssa.Global, *ssa.Select: // a select without room decides that the pool is full
		return true
	case *ssa.Parameter, *ssa.FreeVar:
		if cond == v {
			return true
		}
		_, ptr := cond.Type().Underlying().(*types.Pointer)
		return ptr
	case *ssa.BinOp:
		return next(c.X) && next(c.Y)
	case *ssa.UnOp:
		return c.Op != token.ARROW && next(c.X)
	case *ssa.Convert:
		return next(c.X)
	case *ssa.ChangeType:
		return next(c.X)
	case *ssa.FieldAddr:
		return next(c.X)
	case *ssa.Field:
		return next(c.X)
	case *ssa.IndexAddr:
		return next(c.X)
	case *ssa.Phi:
		for _, e := range c.Edges {
			if !next(e) {
				return false
			}
		}
		return true
	case *ssa.Extract:
		return next(c.Tuple)
	case *ssa.Call:
		for _, a := range c.Call.Args {
			if !next(a) {
				return false
			}
		}
		return !c.Call.IsInvoke()
	}
	return false
}

// viewsOf finds the results that are bytes of an argument.
func (f *function) viewsOf(sum *Summary, i int, v ssa.Value) {
	o := f.objects[objectKey{v: v}]
	if o == nil && !leadsToBytes(v.Type()) {
		return
	}
	for j := range f.fn.Signature.Results().Len() {
		if !leadsToBytes(f.fn.Signature.Results().At(j).Type()) {
			continue
		}
		some, _ := f.everyExit(func(e exit) bool {
			return slices.ContainsFunc(e.results[j], func(r Ref) bool {
				return o != nil && r.Of == o && (r.Mode == View && r.from.Root == nil || r.Mode == Self)
			})
		})
		_, all := f.everyExit(func(e exit) bool {
			c, ok := e.ret.Results[j].(*ssa.Const)
			return ok && c.Value == nil || slices.ContainsFunc(e.results[j], func(r Ref) bool { return r.Of == o && r.Mode != Inside })
		})
		if some && all {
			sum.Views = append(sum.Views, ViewOf{Result: j, Arg: i})
		}
	}
}
