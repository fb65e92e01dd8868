package refs

import (
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/conditions"
	"github.com/tarn-go/tarn/vet/internal/contracts"
	"github.com/tarn-go/tarn/vet/internal/flow"
	"github.com/tarn-go/tarn/vet/internal/kinds"
	"github.com/tarn-go/tarn/vet/internal/places"
	"github.com/tarn-go/tarn/vet/internal/report"
	"github.com/tarn-go/tarn/vet/internal/stdlib"
)

// step runs one instruction. It returns false when the path ends there.
func (f *function) step(s *state, instr ssa.Instruction) bool {
	switch instr := instr.(type) {
	case *ssa.Call:
		return f.call(s, &instr.Call, instr, instr.Pos())
	case *ssa.Defer:
		d := flow.Deferred[binding]{Call: instr}
		for _, a := range code.Operands(&instr.Call) {
			b := f.refsOf(s, a)
			f.look(s, binding{refs: b.refs}, instr.Pos(), "used")
			d.Args = append(d.Args, b)
		}
		s.Push(d)
	case *ssa.RunDefers:
		return f.runDefers(s)
	case *ssa.Go:
		f.spawn(s, &instr.Call, byGoroutine(instr.Pos()))
	case *ssa.Alloc:
		f.alloc(s, instr)
	case *ssa.Store:
		f.store(s, instr)
	case *ssa.UnOp:
		switch instr.Op {
		case token.MUL:
			f.load(s, instr)
		case token.ARROW:
			f.synchronized(s)
			f.receive(s, instr)
		}
	case *ssa.Extract:
		delete(s.Vals, flow.Of(instr))
		if b, ok := s.Vals[flow.Slot{Value: instr.Tuple, Index: instr.Index}]; ok {
			s.Vals[flow.Of(instr)] = b
		}
	case *ssa.Slice:
		delete(s.Vals, flow.Of(instr))
		if f.wholeArray(instr) {
			break
		}
		b := f.refsOf(s, instr.X)
		if _, array := instr.X.(*ssa.Alloc); array {
			b.views = inside(f.reach(s, instr.X))
		}
		switch {
		case len(b.views) > 0 && !kinds.IsBytes(instr.Type()) && instr.High != nil && isZero(instr.High):
			// vecs[:0] holds none of them.
		case len(b.views) > 0 && !f.kinds.Elements(instr.Type()):
			s.Vals[flow.Of(instr)] = binding{views: b.views}
		case !b.empty() && f.kinds.Elements(instr.Type()):
			b.refs = s.alive(b.refs)
			s.Vals[flow.Of(instr)] = b // references, and perhaps their bytes beside them
		case len(b.refs) > 0:
			f.escapePointer(s, instr.X)
		}
	case *ssa.FieldAddr:
		if f.kinds.Pointee(instr.X.Type()) == kinds.Handle && !basic(instr.Type()) { // package tarn accesses its own fields
			f.giveAway(s, f.refsOf(s, instr.X))
		}
	case *ssa.Field:
		delete(s.Vals, flow.Of(instr))
		if f.kinds.Of(instr.X.Type()) == kinds.Handle {
			if !basic(instr.Type()) {
				f.giveAway(s, f.refsOf(s, instr.X))
			}
			break
		}
		b := f.refsOf(s, instr.X)
		if len(b.views) > 0 && carries(instr.Type()) {
			s.Vals[flow.Of(instr)] = binding{views: inside(b.views)}
		} else if !b.empty() && f.kinds.Holds(instr.Type()) {
			if _, only := f.kinds.OnlyLeaf(instr.X.Type()); !only {
				b.part = len(b.refs) > 0
			}
			s.Vals[flow.Of(instr)] = b
		}
	case *ssa.MakeInterface:
		delete(s.Vals, flow.Of(instr))
		b := f.refsOf(s, instr.X)
		switch call := printing(instr); {
		case f.kinds.Pointee(instr.X.Type()) == kinds.Handle && onlyRaw(instr): // see rawBuffer
		case call != nil:
			f.look(s, binding{views: b.views}, call.Pos(), "read")
		case b.empty():
			if views := f.reach(s, instr.X); len(views) > 0 {
				s.Vals[flow.Of(instr)] = binding{views: inside(views)}
			}
			if to := f.kinds.Pointee(instr.X.Type()); to == kinds.Composite || to == kinds.Handle {
				f.escapePointer(s, instr.X)
			}
		case f.kinds.Of(instr.X.Type()) == kinds.Handle:
			f.giveAway(s, b)
		default:
			f.look(s, b, instr.Pos(), "used")
			s.Vals[flow.Of(instr)] = b
		}
	case *ssa.ChangeInterface:
		delete(s.Vals, flow.Of(instr))
		if b := f.refsOf(s, instr.X); !b.empty() {
			s.Vals[flow.Of(instr)] = b
		}
	case *ssa.Convert:
		f.look(s, binding{views: f.refsOf(s, instr.X).views}, instr.Pos(), "read")
	case *ssa.ChangeType:
		if b := f.refsOf(s, instr.X); !b.empty() {
			s.Vals[flow.Of(instr)] = b
		}
	case *ssa.MakeSlice:
		delete(s.Vals, flow.Of(instr))
		if f.kinds.Elements(instr.Type()) {
			r := f.create(s, instr, -1, instr.Type(), instr.Pos(), life{st: void})
			r.kind = kinds.Bag
		}
	case *ssa.MakeClosure:
		f.closure(s, instr)
	case *ssa.Send:
		f.send(s, instr.X, instr.Pos())
	case *ssa.Select:
		f.choose(s, instr)
	case *ssa.Lookup:
		f.lookup(s, instr)
	case *ssa.Range, *ssa.Next:
		clear(s.mapped)
	case *ssa.MapUpdate:
		f.intoMap(s, instr)
	case *ssa.TypeAssert:
		f.giveAway(s, f.refsOf(s, instr.X))
	case *ssa.IndexAddr:
		f.look(s, binding{views: f.refsOf(s, instr.X).views}, instr.Pos(), "read")
	case *ssa.Index:
		f.look(s, binding{views: f.refsOf(s, instr.X).views}, instr.Pos(), "read")
	}
	return true
}

// printing is the call of a function of the standard library that prints, if an interface value is only used as a
// variadic argument of it; otherwise nil. A reference that has ended may be printed, but not its bytes.
func printing(v *ssa.MakeInterface) (call ssa.CallInstruction) {
	for _, u := range *v.Referrers() {
		st, ok := u.(*ssa.Store)
		if !ok {
			return nil
		}
		at, ok := st.Addr.(*ssa.IndexAddr)
		if !ok {
			return nil
		}
		list, ok := at.X.(*ssa.Alloc)
		if !ok {
			return nil
		}
		for _, u := range *list.Referrers() {
			sl, ok := u.(*ssa.Slice)
			if !ok {
				continue
			}
			for _, u := range *sl.Referrers() {
				if call, ok = u.(ssa.CallInstruction); !ok {
					return nil
				}
				fn := code.Callee(call.Common())
				if !stdlib.Prints(fn) {
					return nil
				}
			}
		}
	}
	return call
}

// basic reports whether a field of a Buffer, or a pointer to one, is a number.
func basic(t types.Type) bool {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	_, ok := t.Underlying().(*types.Basic)
	return ok
}

// alloc makes a variable; in a loop, a new one.
func (f *function) alloc(s *state, a *ssa.Alloc) {
	root := places.Of(a)
	for q, b := range s.Mem {
		if !q.Within(root) {
			continue
		}
		delete(s.Mem, q)
		if s.escaped[a] {
			continue
		}
		for _, r := range b.refs {
			if l := s.lives[r]; l.st == held && l.key == nil && !s.bound(r, flow.Slot{}) {
				f.report(s, report.Leak, r, a.Pos(), "loop")
				s.forget(r)
			}
		}
	}
	delete(s.escaped, a)
}

// create binds a new reference to a result of a call.
func (f *function) create(s *state, v ssa.Value, index int, typ types.Type, pos token.Pos, l life) *ref {
	r := f.refAt(refKey{v: v, index: index}, f.kinds.Of(typ), pos)
	at := flow.Slot{Value: v, Index: index}
	if old, ok := s.lives[r]; ok {
		delete(s.Vals, at)
		switch {
		case s.bound(r, f.extractOf(at)):
			older := f.olderOf(r)
			o, ok := s.lives[older]
			several := ok && s.bound(older, flow.Slot{})
			if several {
				if o.st == held {
					s.forget(older)
				}
				s.forget(r)
			}
			s.rename(r, older)
			if several {
				l := s.lives[older]
				l.several = true
				s.lives[older] = l
			}
		case old.st == held && old.key == nil:
			f.report(s, report.Leak, r, pos, "loop")
			delete(s.lives, r)
		default:
			delete(s.lives, r)
		}
	}
	s.lives[r] = l
	s.Vals[at] = binding{refs: []*ref{r}}
	return r
}

// extractOf is the slot of the instruction that extracts a result from a tuple, which holds the reference of
// the iteration before.
func (f *function) extractOf(at flow.Slot) flow.Slot {
	if at.Index < 0 {
		return at
	}
	if e := extracted(at.Value, at.Index); e != nil {
		return flow.Of(e)
	}
	return at
}

// byGoroutine is the custody of what a goroutine uses.
func byGoroutine(pos token.Pos) custody {
	return custody{by: goroutine, pos: pos, in: "used by a goroutine that is started"}
}

// spawn handles a go statement, or a call that starts a goroutine with a function literal, now or later: another
// goroutine gets the arguments, and what it only uses is in the custody that to says.
func (f *function) spawn(s *state, call *ssa.CallCommon, to custody) {
	pos, by := to.pos, "the goroutine"
	if to.by == forGood {
		by = "the function that runs " + to.in
	}
	c := f.contractOf(call)
	for i, a := range code.Operands(call) {
		b := f.reaching(s, a)
		if b.empty() {
			continue
		}
		f.look(s, binding{refs: b.refs}, pos, "used")
		if c.Param(i).Effect == contracts.Borrow && len(b.refs) > 0 {
			f.keep(s, binding{views: f.whole(s, b)}, to)
			continue // must still be freed here
		}
		if p := c.Param(i); (p.Effect == contracts.Take || p.Effect == contracts.Free) && p.When == contracts.Always {
			f.give(s, b, pos, calleeName(call))
			continue
		}
		if p := c.Param(i); (p.Effect == contracts.Drop || p.Effect == contracts.Empty) && p.When == contracts.Always && f.kinds.Pointee(a.Type()) == kinds.Handle {
			f.give(s, b, pos, by) // the literal frees the variable, or gives it away
			continue
		}
		f.keep(s, b, to)
		f.giveAway(s, binding{refs: b.refs})
		f.escapePointer(s, a)
	}
}

// receive takes a reference from a channel. The sender gave it away, so this function owns it.
func (f *function) receive(s *state, recv *ssa.UnOp) {
	typ := recv.X.Type().Underlying().(*types.Chan).Elem()
	if !recv.CommaOk {
		f.arrive(s, recv, -1, typ, recv.Pos(), nil)
		return
	}
	var open *conditions.Condition
	if ok := extracted(recv, 1); ok != nil { // false: the channel is closed
		open = f.table.True(f.term(ok))
		s.unlearn(open)
	}
	f.arrive(s, recv, 0, typ, recv.Pos(), open)
}

// arrive binds what a channel of typ has delivered, if key is true. A struct may hold no reference, because of its error or of
// what its other fields say, or one that its sender frees when it is told to: it is followed only if nothing in the function frees
// what it holds, or if it has no fields but a reference and an error, and in either case only if it has none that can tell the sender.
func (f *function) arrive(s *state, v ssa.Value, index int, typ types.Type, pos token.Pos, key *conditions.Condition) {
	l := life{st: held}
	if key != nil {
		l.key, l.alt = key, void
	}
	switch f.kinds.Of(typ) {
	case kinds.Handle, kinds.Container:
		f.create(s, v, index, typ, pos, l)
	case kinds.Composite:
		at, fails := kinds.ErrorField(typ)
		_, only := f.kinds.OnlyLeaf(typ)
		certain := only && fails && typ.Underlying().(*types.Struct).NumFields() == 2
		if f.kinds.Tells(typ) || !certain && !f.neverReleased(v, index) {
			return
		}
		if fails {
			l.failure = f.ownError(v, index, at)
			s.unlearn(l.failure)
		}
		r := f.create(s, v, index, typ, pos, l)
		if fails {
			r.err = int(at) + 1
		}
	}
}

// extracted is the instruction that extracts one of several values; nil where that is ignored, and for a single value.
func extracted(v ssa.Value, index int) ssa.Value {
	if v.Referrers() == nil { // a package variable, or a constant
		return nil
	}
	for _, u := range *v.Referrers() {
		if e, ok := u.(*ssa.Extract); ok && e.Index == index {
			return e
		}
	}
	return nil
}

// choose handles a select statement: a reference is given away in the case that sends it, and taken in the
// case that receives it.
func (f *function) choose(s *state, sel *ssa.Select) {
	f.synchronized(s)
	chosen := extracted(sel, 0)
	received := 1 // index of the last result that an earlier case set
	for i, c := range sel.States {
		if c.Dir != types.SendOnly {
			received++
			typ := c.Chan.Type().Underlying().(*types.Chan).Elem()
			if chosen != nil && f.kinds.Of(typ) != kinds.Container {
				key := f.isCase(chosen, i)
				delete(s.Facts, key)
				f.arrive(s, sel, received, typ, c.Pos, key)
			}
			continue
		}
		b := f.refsOf(s, c.Send)
		if b.empty() {
			continue
		}
		f.look(s, b, c.Pos, "sent")
		for _, r := range b.refs {
			l := s.lives[r]
			if b.part || l.st != held && l.st != foreign || l.key != nil || r.kind != kinds.Handle || chosen == nil && len(sel.States) == 1 && sel.Blocking {
				s.forget(r)
				continue
			}
			if !f.branches(chosen, i) && (!sel.Blocking || len(sel.States) > 1) {
				continue // the function does the same where another case was chosen: it is still held then
			}
			key := f.isCase(chosen, i)
			s.lives[r] = life{st: given, pos: c.Pos, by: throughChannel, sent: true, key: key, alt: l.st}
			delete(s.Facts, key)
		}
	}
}

// branches reports whether the function does anything else in case i than in the cases that it has not ruled out by then.
func (f *function) branches(chosen ssa.Value, i int) bool {
	if chosen == nil {
		return false
	}
	for _, u := range *chosen.Referrers() {
		test, ok := u.(*ssa.BinOp)
		if !ok {
			return true
		}
		if c, ok := test.Y.(*ssa.Const); ok && c.Int64() == int64(i) && len(*test.Referrers()) > 0 {
			return true
		}
	}
	return false
}

// isCase is the condition that a select statement chose its case i.
func (f *function) isCase(chosen ssa.Value, i int) *conditions.Condition {
	return f.table.Equal(f.term(chosen), f.table.Int(i))
}

// runDefers runs the deferred calls of this path, last first.
func (f *function) runDefers(s *state) bool {
	for d, ok := s.Pop(); ok; d, ok = s.Pop() {
		f.deferring = d.Call.Pos()
		args := slices.Clone(d.Args)
		for i, a := range code.Operands(&d.Call.Call) {
			switch a.(type) {
			case *ssa.Alloc, *ssa.FieldAddr, *ssa.FreeVar, *ssa.Parameter:
				if f.kinds.Pointee(a.Type()) != kinds.Untracked { // the content of its target counts now
					args[i] = f.refsOf(s, a)
				}
			}
		}
		returns := f.apply(s, &d.Call.Call, args, nil, d.Call.Pos())
		f.deferring = token.NoPos
		if !returns {
			return false
		}
	}
	return true
}

// leave handles a return.
func (f *function) leave(s *state, ret *ssa.Return) {
	f.returns = true
	e := exit{s: s, ret: ret}
	for _, v := range ret.Results {
		b := f.refsOf(s, v)
		e.args = append(e.args, b)
		f.look(s, binding{refs: b.refs}, ret.Pos(), "returned")
		f.returnViews(s, v, ret.Pos())
	}
	f.withError(s, ret, e.args)
	e.s = s.clone()
	f.exits = append(f.exits, e)
	for i, v := range ret.Results {
		for _, r := range e.args[i].refs {
			if l := s.lives[r]; l.st == held || l.st == foreign || l.st == lent {
				s.lives[r] = life{st: given, pos: ret.Pos(), by: "return"}
			}
		}
		f.escapePointer(s, v)
	}
	for _, r := range slices.SortedFunc(maps.Keys(s.lives), func(a, b *ref) int { return a.id - b.id }) { // of two at one position the first is reported
		l := s.lives[r]
		if f.refused(r, l) {
			f.report(s, report.Leak, r, ret.Pos(), "refused")
			continue
		}
		if l.st != held || r.kind == kinds.Loan || l.kept.by == forGood && l.kept.in == stdlib.ForEachRequest {
			continue
		}
		if l.key != nil && (l.alt != void || f.consulted(r)) {
			continue
		}
		if p, ok := r.site.(*ssa.Alloc); ok && s.escaped[p] {
			continue
		}
		f.report(s, report.Leak, r, ret.Pos(), "return")
	}
}

// refused reports whether a reference is the function's if a call has failed, and the function does not look at whether it has.
func (f *function) refused(r *ref, l life) bool {
	if l.key == nil || l.alt != held || l.st != given && l.st != void || r.kind == kinds.Loan {
		return false
	}
	v := l.key.X.Value
	if v == nil {
		return r.taken != "" && r.kind == kinds.Container // of a pointer that nothing compared with nil
	}
	if f.inTest(v.Pos()) {
		return false
	}
	for _, u := range *v.Referrers() {
		switch u := u.(type) {
		case *ssa.Return, *ssa.DebugRef:
		case *ssa.BinOp:
			if len(*u.Referrers()) > 0 {
				return false
			}
		case *ssa.Call:
			if fn := code.Callee(&u.Call); fn == nil || fn.Pkg() != f.pass.Pkg || f.contractOf(&u.Call).NilErrs() {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// consulted reports whether the error or bool that says if there is a reference is used otherwise than in a
// comparison: then a helper may have ended the path where there is one. A test that returns it and has no variable for
// the reference expects that there is none.
func (f *function) consulted(r *ref) bool {
	call, ok := r.site.(*ssa.Call)
	if !ok || r.err > 0 {
		return true
	}
	seen := map[ssa.Value]bool{}
	var looked func(v ssa.Value) bool
	looked = func(v ssa.Value) bool {
		if v == nil || seen[v] {
			return false
		}
		seen[v] = true
		for _, u := range *v.Referrers() {
			switch u := u.(type) {
			case *ssa.Call:
				if fn := code.Callee(&u.Call); fn == nil || fn.Pkg() != f.pass.Pkg || !onlyReturned(u) {
					return true
				}
			case ssa.CallInstruction, *ssa.MakeInterface, *ssa.Store, *ssa.ChangeInterface, *ssa.TypeAssert, *ssa.MapUpdate, *ssa.Send:
				return true
			case *ssa.Return:
				if f.inTest(call.Pos()) && f.variable(r) == "" {
					return true
				}
			case *ssa.Phi:
				if looked(u) {
					return true
				}
			}
		}
		return false
	}
	for _, o := range contracts.Outcomes(call.Call.Signature()) {
		if looked(resultOf(call, o.At)) {
			return true
		}
	}
	return false
}

// onlyReturned reports whether a call's result decides nothing in the function: it is ignored or returned.
func onlyReturned(call *ssa.Call) bool {
	for _, u := range *call.Referrers() {
		switch u.(type) {
		case *ssa.Return, *ssa.DebugRef:
		default:
			return false
		}
	}
	return true
}

func (f *function) inTest(pos token.Pos) bool {
	return strings.HasSuffix(f.pass.Fset.Position(pos).Filename, "_test.go")
}
