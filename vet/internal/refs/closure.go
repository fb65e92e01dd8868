package refs

import (
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/contracts"
	"github.com/tarn-go/tarn/vet/internal/flow"
	"github.com/tarn-go/tarn/vet/internal/kinds"
	"github.com/tarn-go/tarn/vet/internal/places"
	"github.com/tarn-go/tarn/vet/internal/stdlib"
)

// This file handles function literals: what they capture, and when they run.

// closure handles a function literal with the variables that it captures. One that is only called or deferred
// in this function is analysed here; any other may run at any time.
func (f *function) closure(s *state, mc *ssa.MakeClosure) {
	delete(s.Vals, flow.Of(mc))
	fn := mc.Fn.(*ssa.Function)
	if onlyCalled(mc) {
		return
	}
	if f.panics[fn] {
		return // it changes nothing
	}
	con := f.anon[fn]
	spawned := onlySpawned(mc)
	var views []view
	for i, b := range mc.Bindings {
		if spawned && f.kinds.Pointee(b.Type()) != kinds.Untracked {
			continue // see spawn
		}
		if spawned && isMethodValue(fn) && f.kinds.Of(b.Type()) != kinds.Untracked {
			continue
		}
		refs := f.refsOf(s, b)
		if isMethodValue(fn) {
			if f.provokes(mc) {
				continue
			}
			f.look(s, binding{refs: refs.refs}, mc.Pos(), "used")
			if f.cleanedUp(s, mc, b, refs) {
				continue
			}
			f.giveAway(s, refs)
			f.escapePointer(s, b)
			continue
		}
		if f.kinds.Pointee(b.Type()) == kinds.Untracked {
			views = append(views, f.captured(s, b, fn.FreeVars[i])...)
			if f.looksOnly(fn.FreeVars[i]) {
				continue
			}
			if p, ok := f.placeOf(b); ok {
				f.giveAway(s, s.Mem[p])
			}
			continue
		}
		if e := con.Param(len(fn.Params) + i).Effect; con != nil && (e == contracts.Borrow || e == contracts.Fill) {
			views = append(views, f.whole(s, refs)...)
			continue
		}
		if f.cleanedUp(s, mc, b, refs) {
			continue
		}
		f.escapePointer(s, b)
	}
	if len(views) > 0 && !spawned {
		s.Vals[flow.Of(mc)] = binding{views: inside(views)}
	}
}

// captured returns the views in a variable that a function literal captures. A variable that the literal
// changes is not tracked any further.
func (f *function) captured(s *state, b ssa.Value, v *ssa.FreeVar) []view {
	p, ok := f.placeOf(b)
	if !ok {
		return nil
	}
	if written(v) {
		f.dropViewsIn(s, p)
		return nil
	}
	return f.viewsIn(s, p)
}

// emptiedByLiteral stops tracking a slice of buffers that argument i of a call, a variable that a literal captures,
// refers to, if the literal frees or gives away elements: whether it does so for all is not tracked.
func (f *function) emptiedByLiteral(s *state, c *ssa.CallCommon, i int) {
	mc, ok := c.Value.(*ssa.MakeClosure)
	if !ok || i < len(c.Args) {
		return
	}
	v := mc.Fn.(*ssa.Function).FreeVars[i-len(c.Args)]
	slice, ok := v.Type().Underlying().(*types.Pointer)
	if !ok || !f.kinds.Elements(slice.Elem()) || !f.released(v) {
		return
	}
	if p, ok := f.placeOf(code.Operands(c)[i]); ok {
		f.giveAway(s, s.Mem[p])
	}
}

// dropViewsIn stops tracking the views stored at a place.
func (f *function) dropViewsIn(s *state, p places.Place) {
	for q, b := range s.Mem {
		if q.Within(p) && len(b.views) > 0 {
			if len(b.refs) == 0 {
				delete(s.Mem, q)
				continue
			}
			s.Mem[q] = binding{refs: b.refs, part: b.part}
		}
	}
}

// written reports whether a function literal may change a variable that it captured.
func written(v *ssa.FreeVar) bool {
	for _, u := range *v.Referrers() {
		if load, ok := u.(*ssa.UnOp); !ok || load.Op != token.MUL {
			return true
		}
	}
	return false
}

// assignedBefore reports whether a variable that a function literal captures has its one value before the literal is
// made: no call in the literal changes it.
func assignedBefore(v *ssa.FreeVar) bool {
	if written(v) {
		return false
	}
	fn := v.Parent()
	for _, b := range fn.Parent().Blocks {
		for _, instr := range b.Instrs {
			mc, ok := instr.(*ssa.MakeClosure)
			if !ok || mc.Fn != ssa.Value(fn) {
				continue
			}
			variable, ok := mc.Bindings[slices.Index(fn.FreeVars, v)].(*ssa.Alloc)
			return ok && storedOnceBefore(variable, mc)
		}
	}
	return false
}

// storedOnceBefore reports whether a variable is stored to once, before a literal is made, and only read otherwise.
func storedOnceBefore(variable *ssa.Alloc, mc *ssa.MakeClosure) bool {
	stores := 0
	for _, u := range *variable.Referrers() {
		switch u := u.(type) {
		case *ssa.Store:
			b := u.Block()
			before := b != mc.Block() && b.Dominates(mc.Block()) ||
				b == mc.Block() && slices.Index(b.Instrs, ssa.Instruction(u)) < slices.Index(b.Instrs, ssa.Instruction(mc))
			if u.Addr != ssa.Value(variable) || !before {
				return false
			}
			stores++
		case *ssa.UnOp, *ssa.DebugRef:
		case *ssa.MakeClosure:
			if u != mc {
				return false
			}
		default:
			return false
		}
	}
	return stores == 1
}

// isYield reports whether a function is the body of a range statement over a function.
func isYield(fn *ssa.Function) bool {
	return fn.Synthetic != "" && fn.Syntax() != nil && fn.Parent() != nil
}

// isMethodValue reports whether a function is the wrapper of a method value.
func isMethodValue(fn *ssa.Function) bool { return fn.Synthetic != "" && fn.Syntax() == nil }

// looksOnly reports whether a literal only reads from a captured pointer to a container, or adds to the
// container.
func (f *function) looksOnly(v *ssa.FreeVar) bool {
	used := false
	for _, u := range *v.Referrers() {
		load, ok := u.(*ssa.UnOp)
		if !ok || f.kinds.Pointee(load.Type()) != kinds.Container {
			return false
		}
		for _, u := range *load.Referrers() {
			call, ok := u.(*ssa.Call)
			if !ok {
				return false
			}
			con := f.contractOf(&call.Call)
			for i, a := range code.Operands(&call.Call) {
				if e := con.Param(i).Effect; a == ssa.Value(load) && e != contracts.Borrow && e != contracts.Fill && e != contracts.Ignore {
					return false
				}
			}
			used = true
		}
	}
	return used
}

// onlySpawned reports whether a closure is only used as the body of a goroutine.
func onlySpawned(mc *ssa.MakeClosure) bool {
	for _, u := range *mc.Referrers() {
		if call, ok := u.(*ssa.Call); ok && spawned(&call.Call, call) == mc {
			continue
		}
		if g, ok := u.(*ssa.Go); !ok || g.Call.Value != mc || slices.Contains(g.Call.Args, ssa.Value(mc)) {
			return false
		}
	}
	return true
}

// spawned is the closure that a call certainly runs in a goroutine of its own, as sync.WaitGroup.Go does, or later, as
// time.AfterFunc does where its result v, which could prevent it, is ignored; or nil.
func spawned(c *ssa.CallCommon, v ssa.Value) *ssa.MakeClosure {
	fn := code.Callee(c)
	if !stdlib.Spawns(fn) && !(stdlib.RunsOnceLater(fn) && v != nil && ignored(v)) || len(c.Args) != 2 {
		return nil
	}
	mc, _ := c.Args[1].(*ssa.MakeClosure)
	return mc
}

// onlyCalled reports whether a closure is only called or deferred.
func onlyCalled(mc *ssa.MakeClosure) bool {
	for _, u := range *mc.Referrers() {
		switch u := u.(type) {
		case *ssa.Call:
			if u.Call.Value != mc || slices.Contains(u.Call.Args, ssa.Value(mc)) {
				return false
			}
		case *ssa.Defer:
			if u.Call.Value != mc || slices.Contains(u.Call.Args, ssa.Value(mc)) {
				return false
			}
		case *ssa.DebugRef:
		default:
			return false
		}
	}
	return true
}
