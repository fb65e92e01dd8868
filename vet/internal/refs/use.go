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
	"github.com/tarn-go/tarn/vet/internal/report"
)

// look handles a use of references and views: those that have ended are reported.
func (f *function) look(s *state, b binding, pos token.Pos, how string) {
	for _, r := range b.refs {
		l := s.lives[r]
		switch {
		case l.by == copiedBy:
			if r.kind == kinds.Container {
				f.report(s, report.Copy, r, pos, "")
				s.forget(r)
			}
		case l.key != nil:
		case l.st == freed && how == "freed":
			f.report(s, report.Double, r, pos, "")
			s.forget(r)
		case l.st == freed, l.st == given:
			f.report(s, report.Use, r, pos, how)
			s.forget(r)
		}
	}
	for _, v := range b.views {
		l, ok := s.lives[v.of]
		if !ok || l.key != nil || l.by == copiedBy || v.inside {
			continue
		}
		switch {
		case v.of.kind == kinds.Loan && l.st == freed:
			f.report(s, report.Use, v.of, pos, "loan")
			s.forget(v.of)
		case v.of.kind == kinds.Handle && (l.st == freed || l.st == given && l.by != "return"):
			f.report(s, report.Use, v.of, pos, "bytes")
			s.forget(v.of)
		case v.of.kind == kinds.Container && l.changes != v.changes && l.st != unknown:
			f.report(s, report.Use, v.of, pos, "views")
			s.forget(v.of)
		}
	}
}

// write handles a write to views.
func (f *function) write(s *state, b binding, pos token.Pos) {
	f.look(s, binding{views: b.views}, pos, "written")
	for _, v := range b.views {
		l := s.lives[v.of]
		if v.inside || v.of.kind != kinds.Handle || len(l.with) == 0 || l.st != held && l.st != foreign && l.st != lent {
			continue
		}
		f.report(s, report.Write, v.of, pos, "")
		l.with = nil
		s.lives[v.of] = l
	}
}

// builtin handles a call of a built-in function.
func (f *function) builtin(s *state, name string, c *ssa.CallCommon, v ssa.Value, pos token.Pos) {
	at := flow.Of(v)
	delete(s.Vals, at)
	arg := func(i int) binding { return f.refsOf(s, c.Args[i]) }
	switch name {
	case "append":
		dst := arg(0)
		if f.kinds.Elements(v.Type()) {
			f.collect(s, c, v, dst, arg(1), pos)
			return
		}
		if !kinds.IsBytes(v.Type()) {
			f.appendViews(s, c, at, dst)
			return
		}
		if len(dst.views) > 0 {
			f.look(s, binding{views: dst.views}, pos, "used")
			if sl, ok := c.Args[0].(*ssa.Slice); ok && sl.High != nil && isZero(sl.High) && isBytesCall(sl.X) {
				f.report(s, report.Escape, dst.views[0].of, pos, "append")
			}
			s.Vals[at] = binding{views: dst.views}
		}
		if len(c.Args) > 1 {
			src := arg(1)
			f.look(s, binding{views: src.views}, pos, "read")
			f.look(s, binding{refs: src.refs}, pos, "appended")
			f.giveAway(s, binding{refs: src.refs})
		}
	case "copy":
		f.forgetElements(s, nil)
		f.giveAway(s, binding{refs: append(slices.Clip(arg(0).refs), arg(1).refs...)})
		f.reads(s, c.Args[1])
		if src := arg(1); len(src.views) > 0 {
			f.look(s, binding{views: src.views}, pos, "read")
		}
		if dst := arg(0); len(dst.views) > 0 {
			f.write(s, dst, pos)
		}
	case "delete":
		clear(s.mapped)
		f.forgetElements(s, nil)
	case "String", "StringData", "SliceData": // of package unsafe
		if views := f.reach(s, c.Args[0]); len(views) > 0 {
			s.Vals[at] = binding{views: inside(views)}
		}
	case "clear":
		clear(s.mapped)
		f.forgetElements(s, nil)
		if dst := arg(0); len(dst.views) > 0 {
			f.write(s, dst, pos)
		}
	}
}

// appendViews handles append to a slice whose elements are neither bytes nor buffers: they may lead to bytes.
func (f *function) appendViews(s *state, c *ssa.CallCommon, at flow.Slot, dst binding) {
	b := binding{views: inside(dst.views)}
	if len(c.Args) > 1 {
		src := f.reaching(s, c.Args[1])
		f.look(s, binding{refs: src.refs}, c.Pos(), "appended")
		f.giveAway(s, binding{refs: src.refs})
		b = b.join(binding{views: inside(src.views)})
	}
	if len(b.views) > 0 {
		s.Vals[at] = b
	}
}

// collect handles append to a slice of buffers. A slice that this function made holds what is appended; any
// other belongs to an owner that may free it.
func (f *function) collect(s *state, c *ssa.CallCommon, v ssa.Value, dst, src binding, pos token.Pos) {
	f.look(s, binding{refs: src.refs}, pos, "appended")
	own := code.IsNil(c.Args[0]) || len(dst.refs) > 0
	for _, r := range dst.refs {
		if l := s.lives[r]; l.st != held && l.st != void {
			own = false
		}
	}
	first := token.NoPos
	full := false
	for _, r := range append(slices.Clip(src.refs), dst.refs...) {
		l := s.lives[r]
		if r.kind == kinds.Bag && l.pos.IsValid() {
			first = l.pos
		}
		if l.st == held {
			f.collected(v)
			full = full || l.key == nil
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
	r.kind = kinds.Bag
}

// collected records the field in which a slice is stored after an append.
func (f *function) collected(v ssa.Value) {
	for _, u := range *v.Referrers() {
		if st, ok := u.(*ssa.Store); ok {
			f.put(st.Addr, v.Pos())
		}
	}
}

// emptied reports whether the function frees or gives away elements of a slice anywhere: whether it does so
// for all of them is not tracked.
func (f *function) emptied() bool {
	if f.takesOut == nil {
		out := f.findTakesOut()
		f.takesOut = &out
	}
	return *f.takesOut
}

func (f *function) findTakesOut() bool {
	for _, b := range f.fn.Blocks {
		for _, instr := range b.Instrs {
			switch instr := instr.(type) {
			case *ssa.IndexAddr:
				if f.kinds.Elements(instr.X.Type()) && f.released(instr) {
					return true
				}
			case *ssa.Next:
				return true
			}
		}
	}
	return false
}

// loopsOver reports whether the function frees or gives away elements of a slice or array with a computed
// index, or of a slice that changes: whether it does so for all of them is not tracked.
func (f *function) loopsOver() bool {
	if f.loops == nil {
		out := f.findLoopsOver()
		f.loops = &out
	}
	return *f.loops
}

func (f *function) findLoopsOver() bool {
	for _, b := range f.fn.Blocks {
		for _, instr := range b.Instrs {
			var index ssa.Value
			var elem types.Type
			again := false // the slice is another one in the next iteration
			switch instr := instr.(type) {
			case *ssa.IndexAddr:
				index, elem = instr.Index, instr.Type().Underlying().(*types.Pointer).Elem()
				_, again = instr.X.(*ssa.Phi)
			case *ssa.Index:
				index, elem = instr.Index, instr.Type()
			default:
				continue
			}
			if _, ok := index.(*ssa.Const); (!ok || again) && f.kinds.Holds(elem) && f.released(instr.(ssa.Value)) {
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

// released reports whether the value loaded through a pointer is used otherwise than for reading.
func (f *function) released(v ssa.Value) bool { return f.releasedBut(v, nil, 0) }

// releasedBut is released without what one instruction does.
func (f *function) releasedBut(v ssa.Value, but ssa.Instruction, depth int) bool {
	for _, u := range *v.Referrers() {
		if u == but {
			continue
		}
		switch u := u.(type) {
		case *ssa.UnOp, *ssa.FieldAddr, *ssa.Field, *ssa.IndexAddr, *ssa.Slice, *ssa.Phi, *ssa.Index:
			w := u.(ssa.Value)
			if (f.kinds.Holds(w.Type()) || f.kinds.Elements(w.Type())) && depth < 8 && f.releasedBut(w, but, depth+1) {
				return true
			}
		case ssa.CallInstruction:
			if _, ok := u.Common().Value.(*ssa.Builtin); ok {
				continue
			}
			con := f.contractOf(u.Common())
			for i, a := range code.Operands(u.Common()) {
				if e := con.Param(i).Effect; a == v && e != contracts.Borrow && e != contracts.Ignore && e != contracts.Fill {
					return true
				}
			}
		case *ssa.Store:
			if u.Val == v && !within(v, u) && !ownField(v, u) {
				if a, ok := u.Addr.(*ssa.Alloc); !ok || depth < 8 && f.releasedBut(a, but, depth+1) {
					return true
				}
			}
		case *ssa.DebugRef, *ssa.BinOp: // a comparison
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
