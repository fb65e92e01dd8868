package vet

import (
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/ssa"
)

// look is a use of references and views: those that ended are reported.
func (f *flow) look(s *state, b binding, pos token.Pos, how string) {
	for _, r := range b.refs {
		l := s.lives[r]
		switch {
		case l.by == copiedBy:
			if r.kind == container {
				f.report(s, copied, r, pos, "")
				s.forget(r)
			}
		case l.key != "":
		case l.st == freed && how == "freed":
			f.report(s, double, r, pos, "")
			s.forget(r)
		case l.st == freed, l.st == given:
			f.report(s, use, r, pos, how)
			s.forget(r)
		}
	}
	for _, v := range b.views {
		l, ok := s.lives[v.of]
		if !ok || l.key != "" || l.by == copiedBy {
			continue
		}
		switch {
		case v.of.kind == handle && (l.st == freed || l.st == given && l.by != "return"):
			f.report(s, use, v.of, pos, "bytes")
			s.forget(v.of)
		case v.of.kind == container && l.changes != v.changes && l.st != unknown:
			f.report(s, use, v.of, pos, "views")
			s.forget(v.of)
		}
	}
}

// write is a write to views.
func (f *flow) write(s *state, b binding, pos token.Pos) {
	f.look(s, binding{views: b.views}, pos, "written")
	for _, v := range b.views {
		l := s.lives[v.of]
		if v.of.kind != handle || len(l.with) == 0 || l.st != held && l.st != foreign && l.st != lent {
			continue
		}
		f.report(s, sharedWrite, v.of, pos, "")
		l.with = nil
		s.lives[v.of] = l
	}
}

// builtin runs one of the language's functions.
func (f *flow) builtin(s *state, name string, c *ssa.CallCommon, v ssa.Value, pos token.Pos) {
	at := slot{v, -1}
	delete(s.vals, at)
	arg := func(i int) binding { return f.refsOf(s, c.Args[i]) }
	switch name {
	case "append":
		dst := arg(0)
		if f.kinds.elements(v.Type()) {
			f.collect(s, c, v, dst, arg(1), pos)
			return
		}
		if len(dst.views) > 0 {
			f.look(s, binding{views: dst.views}, pos, "used")
			if sl, ok := c.Args[0].(*ssa.Slice); ok && sl.High != nil && isZero(sl.High) && isBytesCall(sl.X) {
				f.report(s, escape, dst.views[0].of, pos, "append")
			}
			s.vals[at] = binding{views: dst.views}
		}
		if len(c.Args) > 1 {
			src := arg(1)
			f.look(s, binding{views: src.views}, pos, "read")
			f.escape(s, binding{refs: src.refs}, pos, "appended")
		}
	case "copy":
		f.forgetElements(s, nil)
		f.giveAway(s, binding{refs: append(slices.Clip(arg(0).refs), arg(1).refs...)})
		if src := arg(1); len(src.views) > 0 {
			f.look(s, binding{views: src.views}, pos, "read")
		}
		if dst := arg(0); len(dst.views) > 0 {
			f.write(s, dst, pos)
		}
	case "clear":
		f.forgetElements(s, nil)
		if dst := arg(0); len(dst.views) > 0 {
			f.write(s, dst, pos)
		}
	}
}

// collect is append to a slice of buffers. A slice that this function made holds what is put in;
// any other belongs to an owner that may free it.
func (f *flow) collect(s *state, c *ssa.CallCommon, v ssa.Value, dst, src binding, pos token.Pos) {
	f.look(s, binding{refs: src.refs}, pos, "appended")
	own := isNil(c.Args[0]) || len(dst.refs) > 0
	for _, r := range dst.refs {
		if l := s.lives[r]; l.st != held && l.st != void {
			own = false
		}
	}
	first := token.NoPos
	full := false
	for _, r := range append(slices.Clip(src.refs), dst.refs...) {
		l := s.lives[r]
		if r.kind == bag && l.pos.IsValid() {
			first = l.pos
		}
		if l.st == held {
			f.collected(v)
			full = full || l.key == ""
		}
		switch {
		case !own:
			s.forget(r)
		case l.st == held || l.st == foreign || l.st == lent:
			s.lives[r] = life{}
		}
	}
	if !own {
		return
	}
	if !first.IsValid() {
		first = pos
	}
	l := life{st: void, pos: first}
	if full {
		l.st = held
	}
	r := f.create(s, v, -1, v.Type(), pos, l)
	r.kind = bag
}

// collected notes the field that a slice is stored in after something was appended to it.
func (f *flow) collected(v ssa.Value) {
	for _, u := range *v.Referrers() {
		if st, ok := u.(*ssa.Store); ok {
			f.put(st.Addr, v.Pos())
		}
	}
}

// emptied reports whether the function frees or gives away elements of a slice anywhere: whether it
// does so for all of them is not followed.
func (f *flow) emptied() bool {
	if f.takesOut == nil {
		out := f.findTakesOut()
		f.takesOut = &out
	}
	return *f.takesOut
}

func (f *flow) findTakesOut() bool {
	for _, b := range f.fn.Blocks {
		for _, instr := range b.Instrs {
			switch instr := instr.(type) {
			case *ssa.IndexAddr:
				if f.kinds.elements(instr.X.Type()) && f.released(instr) {
					return true
				}
			case *ssa.Next:
				return true
			}
		}
	}
	return false
}

// loopsOver reports whether the function frees or gives away elements of a slice or array whose index
// is computed: whether it does so for all of them is not followed.
func (f *flow) loopsOver() bool {
	if f.loops == nil {
		out := f.findLoopsOver()
		f.loops = &out
	}
	return *f.loops
}

func (f *flow) findLoopsOver() bool {
	for _, b := range f.fn.Blocks {
		for _, instr := range b.Instrs {
			var index ssa.Value
			var elem types.Type
			switch instr := instr.(type) {
			case *ssa.IndexAddr:
				index, elem = instr.Index, instr.Type().Underlying().(*types.Pointer).Elem()
			case *ssa.Index:
				index, elem = instr.Index, instr.Type()
			default:
				continue
			}
			if _, ok := index.(*ssa.Const); !ok && f.kinds.holds(elem) && f.released(instr.(ssa.Value)) {
				return true
			}
		}
	}
	return false
}

// intoElement reports whether an address is of an element of a slice or array, or of a part of one.
func intoElement(addr ssa.Value) bool {
	for {
		switch a := addr.(type) {
		case *ssa.IndexAddr:
			return true
		case *ssa.FieldAddr:
			addr = a.X
		default:
			return false
		}
	}
}

// released reports whether what is loaded through a pointer is used for more than looking at it.
func (f *flow) released(v ssa.Value) bool { return f.releasedAt(v, 0) }

func (f *flow) releasedAt(v ssa.Value, depth int) bool {
	for _, u := range *v.Referrers() {
		switch u := u.(type) {
		case *ssa.UnOp, *ssa.FieldAddr, *ssa.Field, *ssa.IndexAddr, *ssa.Slice, *ssa.Phi, *ssa.Index:
			w := u.(ssa.Value)
			if (f.kinds.holds(w.Type()) || f.kinds.elements(w.Type())) && depth < 8 && f.releasedAt(w, depth+1) {
				return true
			}
		case ssa.CallInstruction:
			if _, ok := u.Common().Value.(*ssa.Builtin); ok {
				continue
			}
			con := f.contractOf(u.Common())
			for i, a := range operands(u.Common()) {
				if e := con.param(i).Effect; a == v && e != effectBorrow && e != effectNone && e != effectFill {
					return true
				}
			}
		case *ssa.Store:
			if u.Val == v {
				if a, ok := u.Addr.(*ssa.Alloc); !ok || depth < 8 && f.releasedAt(a, depth+1) {
					return true
				}
			}
		case *ssa.DebugRef:
		default:
			return true
		}
	}
	return false
}

func isBytesCall(v ssa.Value) bool {
	call, ok := v.(*ssa.Call)
	if !ok {
		return false
	}
	fn := call.Call.StaticCallee()
	return fn != nil && fn.Name() == "Bytes"
}

// closure is a function literal with the variables that it captures. One that is only called or
// deferred here is looked at there; any other may run at any time.
func (f *flow) closure(s *state, mc *ssa.MakeClosure) {
	fn := mc.Fn.(*ssa.Function)
	if onlyCalled(mc) {
		return
	}
	if f.panics[fn] {
		return // it changes nothing
	}
	con := f.anon[fn]
	spawned := onlySpawned(mc)
	for i, b := range mc.Bindings {
		if spawned && f.kinds.pointee(b.Type()) != untracked {
			continue // see spawn
		}
		refs := f.refsOf(s, b)
		if fn.Synthetic != "" { // a method value
			if f.provokes(mc) {
				continue
			}
			f.look(s, binding{refs: refs.refs}, mc.Pos(), "used")
			f.giveAway(s, refs)
			f.escapePointer(s, b)
			continue
		}
		if f.kinds.pointee(b.Type()) == untracked {
			if f.looksOnly(fn.FreeVars[i]) {
				continue
			}
			if p, ok := f.placeOf(b); ok {
				f.keepCaptured(s, p, mc)
				f.giveAway(s, s.places[p])
			}
			continue
		}
		if e := con.param(len(fn.Params) + i).Effect; con != nil && (e == effectBorrow || e == effectFill) {
			continue
		}
		f.escapePointer(s, b)
	}
}

// looksOnly reports whether a literal does no more with a captured pointer to a container than
// looking at it or putting something in.
func (f *flow) looksOnly(v *ssa.FreeVar) bool {
	used := false
	for _, u := range *v.Referrers() {
		load, ok := u.(*ssa.UnOp)
		if !ok || f.kinds.pointee(load.Type()) != container {
			return false
		}
		for _, u := range *load.Referrers() {
			call, ok := u.(*ssa.Call)
			if !ok {
				return false
			}
			con := f.contractOf(&call.Call)
			for i, a := range operands(&call.Call) {
				if e := con.param(i).Effect; a == ssa.Value(load) && e != effectBorrow && e != effectFill && e != effectNone {
					return false
				}
			}
			used = true
		}
	}
	return used
}

// keepCaptured notes views in a captured variable of a goroutine.
func (f *flow) keepCaptured(s *state, p place, mc *ssa.MakeClosure) {
	for _, u := range *mc.Referrers() {
		if _, ok := u.(*ssa.Go); ok {
			f.keep(s, s.places[p], mc.Pos(), "captured")
		}
	}
}

// onlySpawned reports whether a closure is the body of a goroutine and nothing else.
func onlySpawned(mc *ssa.MakeClosure) bool {
	for _, u := range *mc.Referrers() {
		if g, ok := u.(*ssa.Go); !ok || g.Call.Value != mc || slices.Contains(g.Call.Args, ssa.Value(mc)) {
			return false
		}
	}
	return true
}

// onlyCalled reports whether a closure is called or deferred and nothing else.
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

// provoked reports whether the function is there to panic: a function literal that is passed to one
// that recovers, or, in a test, one that recovers itself or is listed with others to be passed so.
func (f *flow) provoked() bool {
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

// calledByCatcher reports whether a literal recovers and calls functions of this one's type, from a list.
func (f *flow) calledByCatcher(by *ssa.Function) bool {
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

// passedElsewhere reports whether a literal is an argument of a call where it stands, or called there.
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
func (f *flow) provokes(mc *ssa.MakeClosure) bool {
	for _, u := range *mc.Referrers() {
		if call, ok := u.(*ssa.Call); ok && f.catches(&call.Call) {
			return true
		}
	}
	return f.inTest(mc.Pos()) && f.lists(mc)
}

// lists reports whether a test passes functions of the same type as mc, from a list, to one that
// recovers.
func (f *flow) lists(mc *ssa.MakeClosure) bool {
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
