package refs

import (
	"go/types"
	"slices"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/contracts"
	"github.com/tarn-go/tarn/vet/internal/kinds"
	"github.com/tarn-go/tarn/vet/internal/places"
)

// infer derives the function's effects on its arguments and results from all its paths.
func (f *function) infer() *contracts.Contract {
	sig := f.fn.Signature
	nFree := len(f.fn.FreeVars)
	c := &contracts.Contract{Params: make([]contracts.Param, len(f.fn.Params)+nFree), Results: make([]contracts.Result, sig.Results().Len())}
	if f.cut {
		return c
	}
	c.Recovers = f.recovers()
	if !f.returns {
		c.NoReturn = len(f.fn.Blocks) > 0
		return c
	}
	for i, p := range f.fn.Params {
		switch k := f.kinds.Of(p.Type()); {
		case k != kinds.Untracked:
			c.Params[i] = f.inferParam(f.refs[refKey{v: p, from: fromArgument}])
		case f.kinds.Pointee(p.Type()) != kinds.Untracked:
			c.Params[i] = f.inferPointer(p)
		case code.IsError(p.Type()):
			if f.everyExit(func(e exit) bool {
				null, ok := f.valueOf(e.s, p)
				return ok && null
			}) && i < 64 {
				c.NilErr |= 1 << i
			}
		default:
			c.Params[i] = contracts.Param{}
		}
	}
	for i, v := range f.fn.FreeVars {
		if f.kinds.Pointee(v.Type()) != kinds.Untracked {
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
					if p, ok := a.(*ssa.Parameter); ok && code.IsFunc(p.Type()) && f.catches(&call.Call) {
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
			return r.kind != kinds.Composite, false
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
		return true, !l.emptied
	}
	return false, false
}

func (f *function) inferParam(r *ref) contracts.Param {
	if r == nil {
		return contracts.Param{}
	}
	all, none, freedAll := true, true, true
	for _, e := range f.exits {
		done, kept := e.gone(r)
		if !done && !kept {
			return contracts.Param{}
		}
		all, none = all && done, none && kept
		if l := e.s.lives[r]; l.st != freed && l.st != void {
			freedAll = false
		}
	}
	switch {
	case none:
		return contracts.Borrows
	case all && freedAll:
		return contracts.Param{Effect: contracts.Free}
	case all && slices.ContainsFunc(f.exits, func(e exit) bool { return e.s.lives[r].sent }):
		return contracts.Param{Effect: contracts.Send}
	case all:
		return contracts.Takes
	}
	for _, o := range contracts.Outcomes(f.fn.Signature) {
		if p, ok := f.dependent(r, o); ok {
			return p
		}
	}
	return contracts.Param{}
}

// dependent finds that a parameter is taken exactly when a result says so.
func (f *function) dependent(r *ref, o contracts.Outcome) (contracts.Param, bool) {
	effects := map[bool]contracts.Effect{}
	for _, e := range f.exits {
		done, kept := e.gone(r)
		if done && kept {
			continue
		}
		value, ok := f.valueOf(e.s, e.ret.Results[o.At])
		if !ok {
			return contracts.Param{}, false
		}
		now := contracts.Borrow
		if done {
			now = contracts.Take
		}
		if before, ok := effects[value]; ok && before != now {
			return contracts.Param{}, false
		}
		effects[value] = now
	}
	switch {
	case effects[true] == contracts.Take && effects[false] != contracts.Take:
		return contracts.Param{Effect: contracts.Take, When: o.When, At: o.At}, true
	case effects[false] == contracts.Take && effects[true] != contracts.Take && o.When == contracts.IfTrue:
		return contracts.Param{Effect: contracts.Take, When: contracts.IfFalse, At: o.At}, true
	}
	return contracts.Param{}, false
}

// inferPointer infers the effect on the memory to which a pointer leads.
func (f *function) inferPointer(v ssa.Value) contracts.Param {
	var r *ref
	for _, from := range [2]origin{fromArgument, fromMemory} {
		if known, ok := f.refs[refKey{v: v, from: from}]; ok {
			r = known
		}
	}
	if f.fillsLeaf(v) {
		return contracts.Param{Effect: contracts.FillLeaf}
	}
	if f.strays[v] {
		return contracts.Param{}
	}
	root := places.Of(v)
	untouched, freedAll, filled, gave := true, true, false, false
	for _, e := range f.exits {
		if e.s.escaped[v] {
			return contracts.Param{}
		}
		for p, b := range e.s.Mem {
			if !p.Within(root) {
				continue
			}
			if leaf, only := f.kinds.OnlyLeaf(p.Type()); only && leaf != (places.Path{}) {
				if _, ok := e.s.Mem[p.Join(leaf)]; ok {
					continue // the state of the whole is known
				}
			}
			for _, q := range b.refs {
				l := e.s.lives[q]
				if q.param < 0 && q.site != nil || l.key != nil {
					return contracts.Param{} // another value is stored there now
				}
				filled = filled || l.filled
				if l.by == byLength {
					continue // there was nothing
				}
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
						return contracts.Param{}
					}
					untouched, gave = false, true
				default:
					return contracts.Param{}
				}
			}
		}
		if r != nil {
			switch b, ok := e.s.Mem[root]; {
			case !ok && !e.s.lost[root]:
				freedAll = false // this path does not reach it
			case !ok, !b.has(r):
				return contracts.Param{}
			}
		}
		if f.stored(v) {
			return contracts.Param{}
		}
	}
	switch {
	case untouched && !f.leaks(v) && filled && f.kinds.Pointee(v.Type()) == kinds.Container:
		return contracts.Param{Effect: contracts.Fill}
	case untouched && !f.leaks(v):
		return contracts.Borrows
	case freedAll && r != nil && gave:
		return contracts.Param{Effect: contracts.Empty}
	case freedAll && r != nil:
		return contracts.Param{Effect: contracts.Drop}
	}
	return contracts.Param{}
}

// fillsLeaf reports whether the function stores its own reference in the only field of v's struct that can
// hold one, and v is used for nothing else.
func (f *function) fillsLeaf(v ssa.Value) bool {
	leaf, only := f.kinds.OnlyLeaf(v.Type().Underlying().(*types.Pointer).Elem())
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
				if u.Addr == v && !pointer && f.kinds.Holds(u.Val.Type()) && !f.blank[u] {
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
				if pointer && f.kinds.Pointee(v.Type()) != kinds.Untracked {
					return true
				}
			case ssa.CallInstruction:
				if !pointer || f.kinds.Pointee(v.Type()) == kinds.Untracked {
					continue
				}
				con := f.contractOf(u.Common())
				for i, a := range code.Operands(u.Common()) {
					if a == v && con.Param(i).Effect != contracts.Borrow && con.Param(i).Effect != contracts.Fill && con.Param(i).Effect != contracts.Ignore {
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
func (f *function) inferResult(i int) contracts.Result {
	if f.kinds.Of(f.fn.Signature.Results().At(i).Type()) == kinds.Untracked {
		return contracts.Result{}
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
			return contracts.Result{}
		}
	}
	switch {
	case cleaned > 0 && something+nothing == 0:
		return contracts.Result{Source: contracts.Cleaned}
	case cleaned > 0, something == 0:
		return contracts.Result{}
	}
	res := contracts.Result{Source: contracts.Owned}
	conditional := nothing > 0
	for _, e := range f.exits {
		for _, r := range e.args[i].refs {
			conditional = conditional || e.s.lives[r].key != nil
		}
	}
	if !conditional {
		return res
	}
	for _, o := range contracts.Outcomes(f.fn.Signature) {
		if f.everyExit(func(e exit) bool { return f.explains(e, i, o) }) {
			res.When, res.At = o.When, o.At
			return res
		}
	}
	return contracts.Result{Source: contracts.Maybe}
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
		case l.st == held, l.st == foreign && r.param >= 0 && r.kind != kinds.Composite && f.kinds.Of(f.fn.Params[r.param].Type()) != kinds.Untracked:
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
func (f *function) explains(e exit, i int, o contracts.Outcome) bool {
	v := e.ret.Results[o.At]
	value, known := f.valueOf(e.s, v)
	if f.returned(e, i) == void {
		return known && !value || !known && o.When == contracts.IfNil
	}
	for _, r := range e.args[i].refs {
		if l := e.s.lives[r]; l.key != nil {
			c, positive := f.fact(v)
			return !known && positive && (l.key == c || l.key == e.s.root(c))
		}
	}
	return !known && o.When == contracts.IfTrue || known && value || !known && o.When == contracts.IfNil
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
