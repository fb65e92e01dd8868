package code

import "golang.org/x/tools/go/ssa"

// Ordered sorts callees before their callers, as far as they do not call each other. Functions that are passed to a call count as its
// callees, and so do those that reached returns for it, if it is not nil.
func Ordered(fns []*ssa.Function, reached func(*ssa.CallCommon) []*ssa.Function) []*ssa.Function {
	var out []*ssa.Function
	inside := map[*ssa.Function]bool{}
	for _, fn := range fns {
		inside[fn] = true
	}
	done := map[*ssa.Function]bool{}
	var visit func(fn *ssa.Function)
	all := func(call *ssa.CallCommon) {
		visit(origin(call.StaticCallee()))
		for _, a := range call.Args {
			to, _ := a.(*ssa.Function)
			visit(origin(to))
		}
		if reached == nil {
			return
		}
		for _, to := range reached(call) {
			visit(origin(to))
		}
	}
	// What a literal's function passes to a call that takes functions depends on what that one does with them.
	takers := func(call *ssa.CallCommon) {
		if passesFunction(call) {
			visit(origin(call.StaticCallee()))
		}
	}
	visit = func(fn *ssa.Function) {
		if done[fn] || !inside[fn] {
			return
		}
		done[fn] = true
		if outer := fn.Parent(); outer != nil {
			calls(outer, takers)
		}
		for _, anon := range fn.AnonFuncs {
			visit(anon)
		}
		calls(fn, all)
		out = append(out, fn)
	}
	for _, fn := range fns {
		visit(fn)
	}
	return out
}

// calls visits the calls in a function, deferred ones and those in goroutines included.
func calls(fn *ssa.Function, visit func(*ssa.CallCommon)) {
	for _, b := range fn.Blocks {
		for _, instr := range b.Instrs {
			if call, ok := instr.(ssa.CallInstruction); ok {
				visit(call.Common())
			}
		}
	}
}

// origin is the generic function of which fn is an instance, or fn.
func origin(fn *ssa.Function) *ssa.Function {
	if fn != nil && fn.Origin() != nil {
		return fn.Origin()
	}
	return fn
}

// passesFunction reports whether a call has a function among its arguments.
func passesFunction(c *ssa.CallCommon) bool {
	for _, a := range c.Args {
		if IsFunc(a.Type()) {
			return true
		}
	}
	return false
}
