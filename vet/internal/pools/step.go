package pools

import (
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/flow"
	"github.com/tarn-go/tarn/vet/internal/places"
)

// sent is how something is kept that was sent to another goroutine.
const sent = "sent"

// step runs one instruction. It returns false when the path ends there.
func (f *function) step(s *state, instr ssa.Instruction) bool {
	bind := func(v ssa.Value, b Binding) { s.Vals[flow.Of(v)] = b }
	switch instr := instr.(type) {
	case *ssa.Call:
		return f.call(s, &instr.Call, instr, instr.Pos())
	case *ssa.Defer:
		d := flow.Deferred[Binding]{Call: instr}
		for _, a := range code.Operands(&instr.Call) {
			d.Args = append(d.Args, f.refs(s, a))
		}
		s.Push(d)
	case *ssa.RunDefers:
		return f.runDefers(s)
	case *ssa.Go:
		f.spawn(s, &instr.Call, instr.Pos())
	case *ssa.Store:
		f.store(s, instr)
	case *ssa.UnOp:
		switch instr.Op {
		case token.MUL:
			f.load(s, instr)
		case token.ARROW:
			f.waited(s)
		}
	case *ssa.Select:
		f.waited(s)
		for _, c := range instr.States {
			if c.Send != nil {
				f.look(s, f.refs(s, c.Send), c.Pos, "sent")
			}
		}
	case *ssa.Send:
		b := f.reach(s, instr.X)
		f.look(s, b, instr.Pos(), "sent")
		f.keep(s, b, custody{pos: instr.Pos(), how: sent, wait: true})
	case *ssa.Extract:
		if b, ok := s.Vals[flow.Slot{Value: instr.Tuple, Index: instr.Index}]; ok {
			bind(instr, b)
		}
	case *ssa.Slice:
		f.slice(s, instr)
	case *ssa.Convert:
		b := f.refs(s, instr.X)
		if pointerLike(instr.Type()) {
			bind(instr, b)
			break
		}
		f.look(s, b, instr.Pos(), "read")
		bind(instr, nil) // a copy
	case *ssa.ChangeType:
		bind(instr, f.refs(s, instr.X))
	case *ssa.ChangeInterface:
		bind(instr, f.refs(s, instr.X))
	case *ssa.MakeInterface:
		b := f.refs(s, instr.X)
		if call := listedFor(instr); call != nil {
			f.look(s, b, call.Pos(), "used")
		}
		bind(instr, b)
	case *ssa.TypeAssert:
		if instr.CommaOk {
			s.Vals[flow.Slot{Value: instr, Index: 0}] = f.refs(s, instr.X)
			break
		}
		bind(instr, f.refs(s, instr.X))
	case *ssa.Field:
		bind(instr, f.refs(s, instr.X).with(Inside))
	case *ssa.Index:
		f.look(s, f.refs(s, instr.X), instr.Pos(), "read")
	case *ssa.Lookup:
		f.look(s, f.refs(s, instr.X), instr.Pos(), "read")
	case *ssa.Range:
		f.look(s, f.refs(s, instr.X), instr.Pos(), "read")
	case *ssa.BinOp:
		if basic, ok := instr.X.Type().Underlying().(*types.Basic); ok && basic.Info()&types.IsString != 0 {
			f.look(s, f.refs(s, instr.X).join(f.refs(s, instr.Y)), instr.Pos(), "read")
		}
	case *ssa.MapUpdate:
		f.intoMap(s, instr)
	case *ssa.MakeClosure:
		var b Binding
		for _, v := range instr.Bindings {
			if p, ok := s.placeOf(v); ok && p.Variable() {
				b = b.join(f.inside(s, p))
			}
		}
		bind(instr, b)
	}
	return true
}

// chosen records that a case of a select statement was chosen if a branch says so: what that sends is with another goroutine.
func (f *function) chosen(s *state, test *ssa.If) {
	equal, ok := test.Cond.(*ssa.BinOp)
	if !ok || equal.Op != token.EQL {
		return
	}
	which, ok := equal.X.(*ssa.Extract)
	if !ok || which.Index != 0 {
		return
	}
	sel, ok := which.Tuple.(*ssa.Select)
	if !ok {
		return
	}
	if k, ok := equal.Y.(*ssa.Const); ok && k.Value != nil {
		if c := sel.States[k.Int64()]; c.Send != nil {
			f.keep(s, f.reach(s, c.Send), custody{pos: c.Pos, how: sent, wait: true})
		}
	}
}

// listedFor is the variadic call for which an interface value is put into the list of arguments; nil if it is used
// otherwise.
func listedFor(v *ssa.MakeInterface) ssa.CallInstruction {
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
		if !ok || list.Comment != "varargs" {
			return nil
		}
		for _, u := range *list.Referrers() {
			if all, ok := u.(*ssa.Slice); ok {
				for _, u := range *all.Referrers() {
					if call, ok := u.(ssa.CallInstruction); ok {
						return call
					}
				}
			}
		}
	}
	return nil
}

// slice handles x[i:j:k]: the same memory, or for an array in a variable, what is in it.
func (f *function) slice(s *state, v *ssa.Slice) {
	b := f.refs(s, v.X)
	if a, ok := v.X.(*ssa.Alloc); ok {
		b = f.inside(s, places.Of(a)).join(b)
	}
	if c, ok := v.Max.(*ssa.Const); ok && c.Value != nil && c.Int64() == 0 {
		b = nil // append allocates
	}
	if basic, ok := v.X.Type().Underlying().(*types.Basic); ok && basic.Info()&types.IsString != 0 {
		b = b.with(View)
	}
	if c, ok := v.High.(*ssa.Const); ok && c.Value != nil && c.Int64() == 0 && !ofBasic(v.Type()) {
		b = nil // it holds none of the references
	}
	s.Vals[flow.Of(v)] = b
}

// load reads memory.
func (f *function) load(s *state, v *ssa.UnOp) {
	base := f.refs(s, v.X)
	if _, variable := v.X.(*ssa.Alloc); !variable {
		f.look(s, f.target(s, v.X), positionOf(v, v.X), "read")
	}
	p, ok := s.placeOf(v.X)
	if !ok {
		// An element with a computed index: bytes of the object if it leads to some.
		if leadsToBytes(v.Type()) && len(base) > 0 && slices.ContainsFunc(base, func(r Ref) bool { return r.Mode == Inside }) {
			s.Vals[flow.Of(v)] = base.with(View)
		}
		return
	}
	if w, ok := s.loads[p]; ok && w != ssa.Value(v) {
		s.same[v] = s.original(w)
	} else {
		s.loads[p] = v
	}
	if b, ok := s.Mem[p]; ok {
		s.Vals[flow.Of(v)] = b
		return
	}
	if !tracked(v.Type()) {
		return
	}
	if p.Variable() {
		if b := f.inside(s, p); len(b) > 0 { // a struct or array
			s.Vals[flow.Of(v)] = b
			return
		}
	}
	if st, ok := v.Type().Underlying().(*types.Slice); ok && len(base) > 0 && (basicElem(st) && !isCell(p) || p.Whole() && !p.Variable()) && ownsContent(v.X) {
		var b Binding
		for _, r := range base {
			if r.Mode != Inside {
				b = append(b, Ref{Of: r.Of, Mode: View, epoch: s.objs[r.Of].epoch, from: p})
			}
		}
		s.Vals[flow.Of(v)] = b
		s.Mem[p] = b
		return
	}
	o := f.object(s, v, places.Path{})
	o.from, o.found = p, true
	b := Binding{{Of: o}}
	s.Vals[flow.Of(v)] = b
	s.Mem[p] = b
}

// isCell reports whether a place is a variable, and not a part of one.
func isCell(p places.Place) bool { return p.Variable() && p.Whole() }

// target is the object in which an address is.
func (f *function) target(s *state, addr ssa.Value) Binding {
	for {
		switch a := addr.(type) {
		case *ssa.FieldAddr:
			addr = a.X
			continue
		case *ssa.IndexAddr:
			addr = a.X
			continue
		case *ssa.Alloc:
			return nil // a variable
		}
		return f.refs(s, addr)
	}
}

// ownsContent reports whether a pointer is one of which a slice in its target can be said to be a part. Receivers and
// other parameters own their fields, too, but a function that gives the field alone to a pool is no mistake.
func ownsContent(v ssa.Value) bool {
	for {
		switch w := v.(type) {
		case *ssa.FieldAddr:
			v = w.X
			continue
		case *ssa.Global, *ssa.FreeVar:
			return false
		}
		return true
	}
}

func basicElem(s *types.Slice) bool {
	_, ok := s.Elem().Underlying().(*types.Basic)
	return ok
}

// leadsToBytes reports whether a type is a string or a slice.
func leadsToBytes(t types.Type) bool {
	switch u := t.Underlying().(type) {
	case *types.Slice:
		return true
	case *types.Basic:
		return u.Info()&types.IsString != 0
	}
	return false
}

// store writes memory.
func (f *function) store(s *state, st *ssa.Store) {
	b := f.reach(s, st.Val)
	_, variable := st.Addr.(*ssa.Alloc)
	if !variable {
		f.look(s, f.target(s, st.Addr), positionOf(st, st.Addr), "written")
	}
	p, ok := s.placeOf(st.Addr)
	if !ok {
		if ia, isIndex := st.Addr.(*ssa.IndexAddr); isIndex {
			if a, ok := ia.X.(*ssa.Alloc); ok {
				at := places.Of(a).With(places.Step{Kind: places.Element, N: -1})
				s.Mem[at] = s.Mem[at].join(b.with(Inside))
				return
			}
			f.forgetLoads(s)
		}
		return
	}
	f.overwritten(s, p, b)
	f.refilled(s, p)
	if variable {
		f.another(s, st.Addr)
	}
	if len(b) > 0 || tracked(st.Val.Type()) || leadsToBytes(st.Val.Type()) {
		s.Mem[p] = b
	}
	if !p.Variable() {
		f.look(s, b, st.Pos(), "stored")
		f.keep(s, b, custody{pos: st.Pos(), at: p, how: "stored in " + or(f.nameOf(p), "memory that others reach")})
	}
	s.loads[p] = st.Val
}

// another forgets that what a struct in a variable refers to has ended: the variable has another struct now.
func (f *function) another(s *state, variable ssa.Value) {
	if o := f.objects[objectKey{v: variable, gen: s.gen[variable]}]; o != nil && s.objs[o].ended.IsValid() {
		s.objs[o] = status{}
	}
}

// refilled forgets what the struct at a place leads to, of which a field was written: a response whose body was replaced leads to
// the new one.
func (f *function) refilled(s *state, p places.Place) {
	at := flow.Of(p.Root)
	if b, ok := s.Vals[at]; ok && !p.Whole() && slices.ContainsFunc(b, func(r Ref) bool { return r.Mode == Inside }) {
		s.Vals[at] = slices.DeleteFunc(slices.Clone(b), func(r Ref) bool { return r.Mode == Inside })
	}
}

// overwritten forgets what was in a place, and views that were taken from it: they are not the object's any more, except those that are
// stored there again.
func (f *function) overwritten(s *state, p places.Place, again Binding) {
	for q := range s.Mem {
		if q.Within(p) || p.Within(q) {
			delete(s.Mem, q)
		}
	}
	for q := range s.loads {
		if q.Within(p) || p.Within(q) {
			delete(s.loads, q)
		}
	}
	s.detach(func(r Ref) bool { return r.from.Root != nil && r.from.Within(p) && !slices.Contains(again, r) })
	for o, st := range s.objs {
		if st.kept.at.Root != nil && st.kept.at.Within(p) || st.kept.from.Root != nil && st.kept.from.Within(p) {
			st.kept = custody{}
			s.objs[o] = st
		}
	}
}

// forgetLoads drops what is known of memory outside of variables.
func (f *function) forgetLoads(s *state) {
	for q := range s.loads {
		if a, ok := q.Root.(*ssa.Alloc); !ok || f.leaked[a] {
			delete(s.loads, q)
		}
	}
	for q := range s.Mem {
		if a, ok := q.Root.(*ssa.Alloc); !ok || f.leaked[a] {
			delete(s.Mem, q)
		}
	}
}

// keep records that references were stored where they outlive the function.
func (f *function) keep(s *state, b Binding, c custody) {
	if c.at.Root != nil {
		switch c.at.Root.(type) {
		case *ssa.Parameter, *ssa.FreeVar, *ssa.Global, *ssa.UnOp:
		default:
			return
		}
	}
	for _, r := range b {
		st := s.objs[r.Of]
		if st.ended.IsValid() || r.Of.found && r.Of.from.Root == c.at.Root || r.Of.value == c.at.Root {
			continue
		}
		st.kept = c
		st.kept.from = r.from
		s.objs[r.Of] = st
	}
}

// release ends the custody of those that match.
func (s *state) released(match func(custody) bool) {
	for o, st := range s.objs {
		if st.kept.pos.IsValid() && match(st.kept) {
			st.kept = custody{}
			s.objs[o] = st
		}
	}
}

// waited records that goroutines that had something may have finished.
func (f *function) waited(s *state) { s.released(func(c custody) bool { return c.wait }) }

func (f *function) intoMap(s *state, m *ssa.MapUpdate) {
	b := f.reach(s, m.Value).join(f.refs(s, m.Key))
	f.look(s, b, m.Pos(), "stored in a map")
	if made, ok := s.original(m.Map).(*ssa.MakeMap); ok {
		at := flow.Of(made)
		s.Vals[at] = s.Vals[at].join(b.with(Inside))
		return
	}
	at := places.Of(m.Map)
	if load, ok := m.Map.(*ssa.UnOp); ok {
		if p, ok := s.placeOf(load.X); ok {
			at = p
		}
	}
	f.keep(s, b, custody{pos: m.Pos(), at: at, how: "stored in a map"})
}

// spawn handles a go statement.
func (f *function) spawn(s *state, c *ssa.CallCommon, pos token.Pos) {
	for _, a := range code.Operands(c) {
		b := f.reach(s, a)
		f.look(s, b, pos, "used")
		f.keep(s, b, custody{pos: pos, how: "used by a goroutine that is started", wait: true})
	}
}

// runDefers runs the deferred calls of this path, last first.
func (f *function) runDefers(s *state) bool {
	for d, ok := s.Pop(); ok; d, ok = s.Pop() {
		f.deferring = d.Call.Pos()
		returns := f.apply(s, &d.Call.Call, d.Args, nil, d.Call.Pos())
		f.deferring = token.NoPos
		if !returns {
			return false
		}
	}
	return true
}

// positionOf is where an instruction is, or if it has no position, its operand.
func positionOf(instr ssa.Instruction, v ssa.Value) token.Pos {
	if p := instr.Pos(); p.IsValid() {
		return p
	}
	return v.Pos()
}

func or(name, otherwise string) string {
	if name != "" {
		return name
	}
	return otherwise
}
