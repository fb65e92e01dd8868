package vet

import (
	"go/types"
	"slices"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/places"
)

// infer derives the function's effects on its arguments and results from all its paths.
func (f *function) infer() *contract {
	sig := f.fn.Signature
	nFree := len(f.fn.FreeVars)
	c := &contract{Params: make([]param, len(f.fn.Params)+nFree), Results: make([]result, sig.Results().Len())}
	if f.cut {
		return c
	}
	c.Recovers = f.recovers()
	if !f.returns {
		c.NoReturn = len(f.fn.Blocks) > 0
		return c
	}
	for i, p := range f.fn.Params {
		switch k := f.kinds.kindOf(p.Type()); {
		case k != untracked:
			c.Params[i] = f.inferParam(f.refs[refKey{v: p, from: fromArgument}])
		case f.kinds.pointee(p.Type()) != untracked:
			c.Params[i] = f.inferPointer(p)
		case code.IsError(p.Type()):
			if f.everyExit(func(e exit) bool {
				null, ok := f.valueOf(e.s, p)
				return ok && null
			}) && i < 64 {
				c.NilErr |= 1 << i
			}
		default:
			c.Params[i] = param{}
		}
	}
	for i, v := range f.fn.FreeVars {
		if f.kinds.pointee(v.Type()) != untracked {
			c.Params[len(f.fn.Params)+i] = f.inferPointer(v)
		}
	}
	for i := range c.Results {
		c.Results[i] = f.inferResult(i)
	}
	if n := len(c.Results); n > 0 && code.IsError(sig.Results().At(n-1).Type()) {
		c.NonNil = f.everyExit(func(e exit) bool {
			null, ok := f.valueOf(e.s, e.ret.Results[n-1])
			return ok && !null
		})
	}
	return c
}

// recovers reports whether a deferred function literal calls recover, or a parameter is passed to a
// function that recovers.
func (f *function) recovers() bool { return f.catching(f.fn) }

func (f *function) catching(fn *ssa.Function) bool {
	for _, b := range fn.Blocks {
		for _, instr := range b.Instrs {
			if call, ok := instr.(*ssa.Call); ok {
				for _, a := range call.Call.Args {
					if p, ok := a.(*ssa.Parameter); ok && isFunc(p.Type()) && f.catches(&call.Call) {
						return true
					}
				}
			}
			d, ok := instr.(*ssa.Defer)
			if !ok {
				continue
			}
			fn := d.Call.StaticCallee()
			if fn == nil {
				continue
			}
			for _, b := range fn.Blocks {
				for _, instr := range b.Instrs {
					if c, ok := instr.(*ssa.Call); ok {
						if bi, ok := c.Call.Value.(*ssa.Builtin); ok && bi.Name() == "recover" {
							return true
						}
					}
				}
			}
		}
	}
	return false
}

// catches reports whether a call is to a function that recovers.
func (f *function) catches(c *ssa.CallCommon) bool {
	con := f.contractOf(c)
	return con != nil && con.Recovers
}

func isFunc(t types.Type) bool {
	_, ok := t.Underlying().(*types.Signature)
	return ok
}

func (f *function) everyExit(holds func(exit) bool) bool {
	for _, e := range f.exits {
		if !holds(e) {
			return false
		}
	}
	return len(f.exits) > 0
}

// gone returns the state of a ref at an exit: given up, kept by the caller, or unknown.
func (e exit) gone(r *ref) (done, kept bool) {
	for _, b := range e.args {
		if b.has(r) && !b.part {
			// Returned. A struct that comes back may be the one that its caller still has, to be used by either name.
			return r.kind != composite, false
		}
	}
	l, ok := e.s.lives[r]
	if !ok {
		return false, false
	}
	switch l.st {
	case freed, given:
		if l.key == nil {
			return true, false
		}
	case foreign, lent, held:
		if l.key == nil {
			return false, true
		}
	case void:
		return true, true
	}
	return false, false
}

func (f *function) inferParam(r *ref) param {
	if r == nil {
		return param{}
	}
	all, none, freedAll := true, true, true
	for _, e := range f.exits {
		done, kept := e.gone(r)
		if !done && !kept {
			return param{}
		}
		all, none = all && done, none && kept
		if l := e.s.lives[r]; l.st != freed && l.st != void {
			freedAll = false
		}
	}
	switch {
	case none:
		return borrowed
	case all && freedAll:
		return param{Effect: effectFree}
	case all && slices.ContainsFunc(f.exits, func(e exit) bool { return e.s.lives[r].sent }):
		return param{Effect: effectSend}
	case all:
		return taken
	}
	for _, o := range outcomes(f.fn.Signature) {
		if p, ok := f.dependent(r, o); ok {
			return p
		}
	}
	return param{}
}

// dependent finds that a parameter is taken exactly when a result says so.
func (f *function) dependent(r *ref, o outcome) (param, bool) {
	effects := map[bool]effect{}
	for _, e := range f.exits {
		done, kept := e.gone(r)
		if done && kept {
			continue
		}
		value, ok := f.valueOf(e.s, e.ret.Results[o.at])
		if !ok {
			return param{}, false
		}
		now := effectBorrow
		if done {
			now = effectTake
		}
		if before, ok := effects[value]; ok && before != now {
			return param{}, false
		}
		effects[value] = now
	}
	switch {
	case effects[true] == effectTake && effects[false] != effectTake:
		return param{Effect: effectTake, When: o.when, At: o.at}, true
	case effects[false] == effectTake && effects[true] != effectTake && o.when == ifTrue:
		return param{Effect: effectTake, When: ifFalse, At: o.at}, true
	}
	return param{}, false
}

// inferPointer infers the effect on the memory to which a pointer leads.
func (f *function) inferPointer(v ssa.Value) param {
	var r *ref
	for _, from := range [2]origin{fromArgument, fromMemory} {
		if known, ok := f.refs[refKey{v: v, from: from}]; ok {
			r = known
		}
	}
	if f.fillsLeaf(v) {
		return param{Effect: effectFillLeaf}
	}
	if f.strays[v] {
		return param{}
	}
	root := places.Of(v)
	untouched, freedAll, filled, gave := true, true, false, false
	for _, e := range f.exits {
		if e.s.escaped[v] {
			return param{}
		}
		for p, b := range e.s.Mem {
			if !p.Within(root) {
				continue
			}
			if leaf, only := f.kinds.onlyLeaf(p.Type()); only && leaf != (places.Path{}) {
				if _, ok := e.s.Mem[p.Join(leaf)]; ok {
					continue // the state of the whole is known
				}
			}
			for _, q := range b.refs {
				l := e.s.lives[q]
				if q.param < 0 && q.site != nil || l.key != nil {
					return param{} // another value is stored there now
				}
				filled = filled || l.filled
				switch l.st {
				case foreign, lent:
					freedAll = false
					if l.changes > 0 {
						untouched = false
					}
				case freed, void:
					untouched = false
				case given:
					if _, captured := v.(*ssa.FreeVar); !captured || l.sent || l.by == "return" {
						return param{}
					}
					untouched, gave = false, true
				default:
					return param{}
				}
			}
		}
		if r != nil {
			switch b, ok := e.s.Mem[root]; {
			case !ok && !e.s.lost[root]:
				freedAll = false // this path does not reach it
			case !ok, !b.has(r):
				return param{}
			}
		}
		if f.stored(v) {
			return param{}
		}
	}
	switch {
	case untouched && !f.leaks(v) && filled && f.kinds.pointee(v.Type()) == container:
		return param{Effect: effectFill}
	case untouched && !f.leaks(v):
		return borrowed
	case freedAll && r != nil && gave:
		return param{Effect: effectEmpty}
	case freedAll && r != nil:
		return param{Effect: effectDrop}
	}
	return param{}
}

// fillsLeaf reports whether the function stores its own reference in the only field of v's struct that can
// hold one, and v is used for nothing else.
func (f *function) fillsLeaf(v ssa.Value) bool {
	leaf, only := f.kinds.onlyLeaf(v.Type().Underlying().(*types.Pointer).Elem())
	if !only || f.leaks(v) {
		return false
	}
	in, filled := places.Of(v).Join(leaf), false
	for _, e := range f.exits {
		if e.s.escaped[v] {
			return false
		}
		if !e.s.stored[in] {
			continue
		}
		for _, r := range e.s.Mem[in].refs {
			st := e.s.lives[r].st
			filled = filled || st != freed && st != given
		}
	}
	return filled
}

// stored reports whether the function writes fields that hold references in v's struct.
func (f *function) stored(v ssa.Value) bool { return f.anyUse(v, ofContent) }

// leaks reports whether the pointer v itself is stored or passed where this function cannot track it.
func (f *function) leaks(v ssa.Value) bool { return f.anyUse(v, ofPointer) }

// useOf selects uses of a pointer.
type useOf uint8

const (
	ofContent useOf = iota // stores to the memory it points to
	ofPointer              // places where the pointer itself is stored or passed
)

func (f *function) anyUse(v ssa.Value, of useOf) bool {
	pointer := of == ofPointer
	seen := map[ssa.Value]bool{}
	var walk func(v ssa.Value) bool
	walk = func(v ssa.Value) bool {
		if seen[v] || v.Referrers() == nil {
			return false
		}
		seen[v] = true
		for _, u := range *v.Referrers() {
			switch u := u.(type) {
			case *ssa.Store:
				if u.Addr == v && !pointer && f.kinds.holds(u.Val.Type()) {
					return true
				}
				if u.Val == v && pointer {
					return true
				}
			case *ssa.FieldAddr:
				if walk(u) {
					return true
				}
			case *ssa.IndexAddr:
				if walk(u) {
					return true
				}
			case *ssa.Phi, *ssa.MakeInterface, *ssa.Send, *ssa.MapUpdate, *ssa.Return, *ssa.MakeClosure, *ssa.ChangeType:
				if pointer && f.kinds.pointee(v.Type()) != untracked {
					return true
				}
			case ssa.CallInstruction:
				if !pointer || f.kinds.pointee(v.Type()) == untracked {
					continue
				}
				con := f.contractOf(u.Common())
				for i, a := range code.Operands(u.Common()) {
					if a == v && con.param(i).Effect != effectBorrow && con.param(i).Effect != effectFill && con.param(i).Effect != effectNone {
						return true
					}
				}
			}
		}
		return false
	}
	return walk(v)
}

// inferResult infers whether the caller gets a reference to free, and when.
func (f *function) inferResult(i int) result {
	if f.kinds.kindOf(f.fn.Signature.Results().At(i).Type()) == untracked {
		return result{}
	}
	something, nothing, cleaned := 0, 0, 0
	for _, e := range f.exits {
		switch f.returned(e, i) {
		case lent:
			cleaned++
		case held:
			something++
		case void:
			nothing++
		default:
			return result{}
		}
	}
	switch {
	case cleaned > 0 && something+nothing == 0:
		return result{Source: resultCleaned}
	case cleaned > 0, something == 0:
		return result{}
	}
	res := result{Source: resultOwned}
	conditional := nothing > 0
	for _, e := range f.exits {
		for _, r := range e.args[i].refs {
			conditional = conditional || e.s.lives[r].key != nil
		}
	}
	if !conditional {
		return res
	}
	for _, o := range outcomes(f.fn.Signature) {
		if f.everyExit(func(e exit) bool { return f.explains(e, i, o) }) {
			res.When, res.At = o.when, o.at
			return res
		}
	}
	return result{Source: resultMaybe}
}

// returned is the status of a result at one exit: held, void, lent if it is freed when the test ends, or
// unknown.
func (f *function) returned(e exit, i int) status {
	b := e.args[i]
	if b.part || len(b.views) > 0 {
		return unknown
	}
	if len(b.refs) == 0 {
		if c, ok := e.ret.Results[i].(*ssa.Const); ok && c.Value == nil {
			return void // the zero Buffer
		}
		if f.zeroLoad(e, e.ret.Results[i]) {
			return void
		}
		return unknown
	}
	st := void
	for _, r := range b.refs {
		l := e.s.lives[r]
		if l.key != nil && (l.st != held || l.alt != void) {
			return unknown
		}
		switch {
		case l.st == held, l.st == foreign && r.param >= 0 && r.kind != composite && f.kinds.kindOf(f.fn.Params[r.param].Type()) != untracked:
			st = held
		case l.st == lent && l.by == whenTestEnds && len(b.refs) == 1:
			return lent
		case l.st == void:
		default:
			return unknown
		}
	}
	return st
}

// explains reports whether, at an exit, the outcome o says if the result i is a reference.
func (f *function) explains(e exit, i int, o outcome) bool {
	v := e.ret.Results[o.at]
	value, known := f.valueOf(e.s, v)
	if f.returned(e, i) == void {
		return known && !value || !known && o.when == ifNil
	}
	for _, r := range e.args[i].refs {
		if l := e.s.lives[r]; l.key != nil {
			c, positive := f.fact(v)
			return !known && positive && (l.key == c || l.key == e.s.root(c))
		}
	}
	return !known && o.when == ifTrue || known && value || !known && o.when == ifNil
}

// zeroLoad reports whether a result is a local variable with its zero value.
func (f *function) zeroLoad(e exit, v ssa.Value) bool {
	u, ok := v.(*ssa.UnOp)
	if !ok {
		return false
	}
	p, ok := f.placeOf(u.X)
	return ok && p.Local() && !e.s.escaped[p.Root]
}
