package refs

import (
	"go/types"
	"slices"

	"golang.org/x/tools/go/ssa"
)

// This file finds function literals that panic on purpose.

// provoked reports whether the function panics on purpose: a function literal that is passed to one that
// recovers, or, in a test, one that recovers itself or is in a list of functions to be passed so.
func (f *function) provoked() bool {
	test := f.inTest(f.fn.Pos())
	if test && f.recovers() {
		return true
	}
	outer := f.fn.Parent()
	if outer == nil {
		return false
	}
	if test && !passedElsewhere(f.fn) && slices.ContainsFunc(outer.AnonFuncs, f.calledByCatcher) {
		return true
	}
	for _, b := range outer.Blocks {
		for _, instr := range b.Instrs {
			call, ok := instr.(ssa.CallInstruction)
			if !ok {
				continue
			}
			for _, a := range call.Common().Args {
				if mc, ok := a.(*ssa.MakeClosure); ok {
					a = mc.Fn
				}
				_, fixed := a.(*ssa.Function)
				listed := test && !fixed && types.Identical(a.Type(), f.fn.Signature) && !passedElsewhere(f.fn)
				if (a == ssa.Value(f.fn) || listed) && f.catches(call.Common()) {
					return true
				}
			}
		}
	}
	return false
}

// calledByCatcher reports whether a literal recovers and calls functions of this one's type from a list.
func (f *function) calledByCatcher(by *ssa.Function) bool {
	if by == f.fn || !f.catching(by) {
		return false
	}
	for _, b := range by.Blocks {
		for _, instr := range b.Instrs {
			call, ok := instr.(ssa.CallInstruction)
			if ok && !call.Common().IsInvoke() && call.Common().StaticCallee() == nil && types.Identical(call.Common().Value.Type(), f.fn.Signature) {
				return true
			}
		}
	}
	return false
}

// passedElsewhere reports whether a literal is an argument of a call, or called, where it is defined.
func passedElsewhere(fn *ssa.Function) bool {
	for _, b := range fn.Parent().Blocks {
		for _, instr := range b.Instrs {
			call, ok := instr.(ssa.CallInstruction)
			if !ok {
				continue
			}
			for _, a := range append(slices.Clip(call.Common().Args), call.Common().Value) {
				if mc, ok := a.(*ssa.MakeClosure); ok {
					a = mc.Fn
				}
				if a == ssa.Value(fn) {
					return true
				}
			}
		}
	}
	return false
}

// provokes reports whether a method value is passed to a function that recovers.
func (f *function) provokes(mc *ssa.MakeClosure) bool {
	for _, u := range *mc.Referrers() {
		if call, ok := u.(*ssa.Call); ok && f.catches(&call.Call) {
			return true
		}
	}
	return f.inTest(mc.Pos()) && f.lists(mc)
}

// lists reports whether a test passes functions of mc's type from a list to one that recovers.
func (f *function) lists(mc *ssa.MakeClosure) bool {
	for _, b := range f.fn.Blocks {
		for _, instr := range b.Instrs {
			call, ok := instr.(*ssa.Call)
			if !ok {
				continue
			}
			for _, a := range call.Call.Args {
				if _, ok := a.(*ssa.MakeClosure); !ok && types.Identical(a.Type(), mc.Type()) && f.catches(&call.Call) {
					return true
				}
			}
		}
	}
	return false
}
