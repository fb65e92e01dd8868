package refs

import (
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/contracts"
	"github.com/tarn-go/tarn/vet/internal/flow"
	"github.com/tarn-go/tarn/vet/internal/kinds"
	"github.com/tarn-go/tarn/vet/internal/stdlib"
)

func calleeName(c *ssa.CallCommon) string {
	if fn := code.Callee(c); fn != nil {
		return fn.Name()
	}
	return "the function"
}

// call runs a call statement or expression.
func (f *function) call(s *state, c *ssa.CallCommon, v ssa.Value, pos token.Pos) bool {
	if b, ok := c.Value.(*ssa.Builtin); ok {
		f.builtin(s, b.Name(), c, v, pos)
		return true
	}
	var args []binding
	for _, a := range code.Operands(c) {
		args = append(args, f.refsOf(s, a))
	}
	return f.apply(s, c, args, v, pos)
}

// apply applies a call's contract. v is nil for deferred calls.
func (f *function) apply(s *state, c *ssa.CallCommon, args []binding, v ssa.Value, pos token.Pos) bool {
	if _, ok := c.Value.(*ssa.Builtin); ok {
		return true
	}
	fn := code.Callee(c)
	if fn != nil && stdlib.NeverReturns(fn) {
		return false
	}
	if stdlib.FailsTest(fn) {
		return false // the test has failed: leaks on this path do not matter
	}
	con := f.contractOf(c)
	if raw := f.rawContract(c); raw != nil {
		con = raw
	}
	if con != nil && con.NoReturn {
		return false
	}
	vars := code.Operands(c)
	name := f.callText(c)
	library := stdlib.Borrows(fn)
	if fn != nil && v != nil && con != nil {
		for i := range vars {
			if con.NilErr&(1<<i) != 0 {
				s.learn(f.isNil(vars[i]), true)
			}
		}
	}
	f.readThrough(s, c, pos)
	f.overtaken(s, c)
	if mc := spawned(c, v); mc != nil {
		to := byGoroutine(pos)
		if when, ok := stdlib.RunsLater(fn); ok {
			to = custody{by: forGood, pos: pos, in: when}
		}
		f.spawn(s, &ssa.CallCommon{Value: mc}, to)
	}
	f.rawBuffer(s, c, v, pos)
	f.pooled(s, c, fn, pos)
	// Results get the names of their conditions before effects are applied, which may depend on them.
	sig := c.Signature()
	for i, b := range args {
		if b.empty() && f.kinds.Of(vars[i].Type()) == kinds.Handle {
			b = f.firstSeen(s, vars[i], pos)
			args[i] = b
			for _, r := range b.refs {
				if r.field == "" {
					r.field = f.argumentText(c, i)
				}
			}
		}
		p := con.Param(i)
		if i == 0 && fn != nil && fn.Name() == "Free" {
			f.frees[c.Pos()] = f.frees[c.Pos()] || !s.nothing(b)
		}
		if b.empty() {
			f.emptiedByLiteral(s, c, i)
			if to := f.kinds.Pointee(vars[i].Type()); (to == kinds.Handle || to == kinds.Composite) && !library && p.Effect != contracts.Borrow && p.Effect != contracts.Ignore {
				f.outlet(s, c, v, vars[i], p, pos)
			}
			continue
		}
		if library && p.Effect == contracts.Unknown {
			p.Effect = contracts.Borrow
			if c, ok := vars[i].(*ssa.MakeInterface); ok && len(b.refs) == 1 && b.refs[0].kind == kinds.Container {
				p.Effect = contracts.Fill // it is read from or written to
				if named := kinds.NamedOf(c.X.Type()); named != nil && named.Obj().Name() == "Chain" {
					p.Effect = contracts.Drain
				}
			}
		}
		f.argument(s, c, v, i, vars[i], b, p, name, pos)
	}
	if (fn == nil || !library && !f.harmless(fn)) && f.touches(fn) {
		f.forgetMemory(s)
	} else if fn != nil && !f.kinds.Has(fn.Pkg()) && library {
		f.forgetElements(s, nil) // slices.Delete and similar functions
	}
	f.endLoans(s, c, pos)
	if v == nil {
		return true
	}
	f.results(s, c, con, fn, sig, args, v, pos)
	return true
}

// nothing reports whether there is certainly nothing to free.
func (s *state) nothing(b binding) bool {
	for _, r := range b.refs {
		if l := s.lives[r]; l.st != void || l.by == byLength {
			return false
		}
	}
	return len(b.refs) > 0 && !b.part
}

// firstSeen binds a handle of unknown origin, so that it is tracked from here on.
func (f *function) firstSeen(s *state, v ssa.Value, pos token.Pos) binding {
	switch v.(type) {
	case *ssa.Const, *ssa.Global:
		return binding{}
	}
	if _, ok := s.Vals[flow.Of(v)]; ok {
		return binding{}
	}
	r := f.refAt(refKey{v: v, from: fromUse}, kinds.Handle, pos)
	r.site = nil
	s.lives[r] = life{st: foreign}
	b := binding{refs: []*ref{r}}
	s.Vals[flow.Of(v)] = b
	// Loading the same element again yields the same reference.
	if look, ok := v.(*ssa.Lookup); ok && !look.CommaOk {
		p := f.inMap(look.X, look.Index)
		r.field = f.nameOf(p)
		s.Mem[p] = b
	}
	if load, ok := v.(*ssa.UnOp); ok && load.Op == token.MUL {
		if p, ok := f.placeOf(load.X); ok && p.IsElement() {
			s.Mem[p] = b
		}
	}
	return b
}

// touches reports whether a call may change memory that this function tracks.
func (f *function) touches(fn *types.Func) bool {
	return fn == nil || !f.kinds.Has(fn.Pkg()) || f.kinds.Has(f.pass.Pkg) && !f.isBaseMethod(fn)
}

func (f *function) isBaseMethod(fn *types.Func) bool {
	r := fn.Signature().Recv()
	return r != nil && f.kinds.IsBase(r.Type())
}

// harmless reports whether fn is a method of package tarn that changes nothing but its arguments.
func (f *function) harmless(fn *types.Func) bool {
	return contracts.Primitive(f.kinds, fn) != nil
}

// argument applies the call's effect to one argument.
func (f *function) argument(s *state, c *ssa.CallCommon, v ssa.Value, i int, a ssa.Value, b binding, p contracts.Param, name string, pos token.Pos) {
	how := "used"
	if p.Effect == contracts.Free || p.Effect == contracts.Drop {
		how = "freed"
	}
	if p.Effect == contracts.Ignore {
		return
	}
	pointer := f.kinds.Of(a.Type()) == kinds.Untracked && len(b.refs) > 0
	if !pointer || p.Effect != contracts.Unknown { // the variable's address may be passed for the callee to write to it
		f.look(s, binding{refs: b.refs}, pos, how)
	}
	if len(b.views) > 0 {
		f.viewArgument(s, c, v, i, p, a, b, pos)
		if len(b.refs) == 0 {
			return
		}
	}
	if b.part && p.Effect != contracts.Borrow && p.Effect != contracts.Fill {
		f.giveAway(s, b)
		if f.kinds.Of(a.Type()) != kinds.Handle {
			return
		}
		// The element itself is still tracked.
		delete(s.Vals, flow.Of(a))
		if b = f.firstSeen(s, a, pos); b.empty() {
			return
		}
	}
	switch p.Effect {
	case contracts.Borrow:
		f.found(s, binding{refs: b.refs, part: b.part})
	case contracts.Send:
		f.give(s, b, pos, name)
		f.mayReturn(s, b)
	case contracts.Take, contracts.Free:
		if pointer {
			f.empty(s, b, p, v, pos)
			return
		}
		if fn := code.Callee(c); fn == nil || contracts.Primitive(f.kinds, fn) == nil {
			if p.Effect == contracts.Take {
				f.dropViews(s, b.refs) // the callee may keep the memory, as its comment may say
			}
		} else if p.When != contracts.Always && v != nil && ignored(resultOf(v, 0)) && f.inTest(pos) {
			return // a test that checks the result alone expects that nothing was taken
		}
		if p.When != contracts.Always {
			f.giveIf(s, b, p, v, pos, name)
			return
		}
		if p.Effect == contracts.Free {
			f.free(s, b, pos)
		} else {
			f.give(s, b, pos, name)
		}
	case contracts.Fill:
		f.put(a, pos)
		f.hoard(a, pos)
		f.fill(s, b, pos)
		if fn := code.Callee(c); fn != nil && contracts.Primitive(f.kinds, fn) == nil {
			f.perhaps(s, fn, b, v, pos)
		}
	case contracts.Empty, contracts.Drop, contracts.Drain:
		f.drained(s, b, p, v, pos)
	case contracts.FillLeaf:
		f.outlet(s, c, v, a, p, pos)
	default:
		f.giveAway(s, b)
		f.escapePointer(s, a)
	}
}

// viewArgument handles bytes passed to a function: a use, and for some functions a write.
func (f *function) viewArgument(s *state, c *ssa.CallCommon, v ssa.Value, i int, p contracts.Param, a ssa.Value, b binding, pos token.Pos) {
	f.look(s, binding{views: b.views}, pos, "used")
	fn := code.Callee(c)
	if when, ok := stdlib.RunsLater(fn); ok && code.IsFunc(a.Type()) && (v == nil || ignored(v)) {
		f.keep(s, b, custody{by: forGood, pos: pos, in: when})
	}
	if (stdlib.Spawns(fn) || stdlib.MaySpawn(fn)) && code.IsFunc(a.Type()) {
		f.keep(s, b, byGoroutine(pos))
	}
	if p.Effect == contracts.Keep {
		f.keepIn(s, b, f.keptBy(c), pos, "kept by "+f.callText(c))
	}
	if f.writes(c, i) {
		f.write(s, b, pos)
	}
}
