package refs

import (
	"go/token"
	"go/types"
	"maps"
	"slices"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/conditions"
	"github.com/tarn-go/tarn/vet/internal/contracts"
	"github.com/tarn-go/tarn/vet/internal/flow"
	"github.com/tarn-go/tarn/vet/internal/kinds"
	"github.com/tarn-go/tarn/vet/internal/places"
)

// refsOf is the binding of a value: of a handle, its ref; of a pointer, the content of the memory.
func (f *function) refsOf(s *state, v ssa.Value) binding {
	if b, ok := s.Vals[flow.Of(v)]; ok {
		return b
	}
	switch v := v.(type) {
	case *ssa.Const, *ssa.Function, *ssa.Global, *ssa.Builtin:
		return binding{}
	case *ssa.ChangeType:
		return f.refsOf(s, v.X)
	case *ssa.Slice:
		if f.wholeArray(v) {
			return f.refsOf(s, v.X) // what is in the array now
		}
	}
	if f.kinds.Pointee(v.Type()) == kinds.Untracked {
		return binding{}
	}
	if b := f.element(s, v); len(b.refs) > 0 {
		return b
	}
	p, ok := f.placeOf(v)
	if !ok {
		return binding{}
	}
	return f.content(s, p, v.Type().Underlying().(*types.Pointer).Elem())
}

// wholeArray reports whether a slice of references begins where the array of a variable does.
func (f *function) wholeArray(v *ssa.Slice) bool {
	_, array := v.X.(*ssa.Alloc)
	return array && v.Low == nil && f.kinds.Elements(v.Type())
}

// element is the binding of a pointer to an element of a slice, or to a field of one: a part of what the
// slice holds.
func (f *function) element(s *state, v ssa.Value) binding {
	switch v := v.(type) {
	case *ssa.IndexAddr:
		refs := s.alive(f.refsOf(s, v.X).refs)
		return binding{refs: refs, part: len(refs) > 0}
	case *ssa.FieldAddr:
		return f.element(s, v.X)
	}
	return binding{}
}

// alive is those of the references in a slice that have not ended, of which an element or a part of it is one; all of
// them if they have all ended.
func (s *state) alive(refs []*ref) []*ref {
	if some := slices.DeleteFunc(slices.Clone(refs), func(r *ref) bool { return s.lives[r].st >= freed }); len(some) > 0 {
		return some
	}
	return refs
}

// content is the binding of a place, with all of its parts.
func (f *function) content(s *state, p places.Place, typ types.Type) binding {
	if b, ok := s.Mem[p]; ok {
		// What is known of its only reference is known of the whole.
		if leaf, only := f.kinds.OnlyLeaf(typ); only && f.foreignWhole(s, p, b) {
			if c, ok := s.Mem[p.Join(leaf)]; ok {
				return c
			}
		}
		if p.Local() && f.kinds.Of(typ) == kinds.Composite {
			for q, c := range s.Mem { // stored in parts of it since
				if q != p && q.Within(p) {
					b = b.join(c)
				}
			}
			slices.SortFunc(b.refs, func(x, y *ref) int { return x.id - y.id })
		}
		return b
	}
	var b binding
	for q, c := range s.Mem {
		if q.Within(p) {
			b = b.join(c)
		}
	}
	if !b.empty() {
		slices.SortFunc(b.refs, func(x, y *ref) int { return x.id - y.id })
		return b
	}
	if up, c, ok := f.around(s, p); ok {
		if leaf, only := f.kinds.OnlyLeaf(up.Type()); only && up.Join(leaf) == p && !f.foreignWhole(s, up, c) {
			return c
		}
		if !f.foreignWhole(s, up, c) || f.kinds.Of(typ) == kinds.Untracked {
			c.part = true
			return c
		}
	}
	if k := f.kinds.Of(typ); k != kinds.Untracked {
		if p.Local() && !s.escaped[p.Root] {
			if k != kinds.Container {
				return binding{}
			}
			r := f.refAt(refKey{v: p.Root, from: fromMemory, path: p.Path}, k, f.now)
			r.site, r.field = p.Root, f.nameOf(p)
			s.lives[r] = life{st: void}
			b = binding{refs: []*ref{r}}
			s.Mem[p] = b
			return b
		}
		// Seen for the first time: it was there before.
		r := f.refAt(refKey{v: p.Root, from: fromMemory, path: p.Path}, k, f.now)
		r.site, r.field = nil, f.nameOf(p)
		if _, ok := s.lives[r]; ok {
			// It was forgotten in between, and another value may be stored there now.
			older := f.olderOf(r)
			delete(s.lives, older)
			s.rename(r, older)
			s.forget(older)
		}
		s.lives[r] = life{st: foreign}
		if _, c, ok := f.around(s, p); s.escaped[p.Root] || s.lost[p] || ok && len(c.refs) == 1 && s.lives[c.refs[0]].st == unknown {
			s.lives[r] = life{}
		}
		b = binding{refs: []*ref{r}}
		s.Mem[p] = b
	}
	return b
}

// foreignWhole reports whether a composite does not belong to this function: then its parts are tracked one
// by one.
func (f *function) foreignWhole(s *state, p places.Place, b binding) bool {
	if len(b.refs) != 1 || b.refs[0].kind != kinds.Composite && b.refs[0].kind != kinds.Container || p.Local() {
		return false
	}
	st := s.lives[b.refs[0]].st
	return st == foreign || st == unknown && b.refs[0].param >= 0
}

// around finds the composite of which p is a part.
func (f *function) around(s *state, p places.Place) (places.Place, binding, bool) {
	for up := range p.Around() {
		if b, ok := s.Mem[up]; ok {
			return up, b, true
		}
	}
	return places.Place{}, binding{}, false
}

// load reads a variable.
func (f *function) load(s *state, v *ssa.UnOp) {
	delete(s.Vals, flow.Of(v))
	p, ok := f.placeOf(v.X)
	if f.kinds.Of(v.Type()) != kinds.Untracked {
		if b, known := s.Mem[p]; ok && known && len(b.refs) > 0 && p.IsElement() {
			s.Vals[flow.Of(v)] = b
			return
		}
		if b := f.element(s, v.X); len(b.refs) > 0 {
			f.look(s, b, v.Pos(), "used")
			s.Vals[flow.Of(v)] = b
			return
		}
	}
	if ia, isIndex := v.X.(*ssa.IndexAddr); !ok || isIndex && len(f.refsOf(s, ia.X).views) > 0 {
		// An element of a slice of views is a view.
		if ia, ok := v.X.(*ssa.IndexAddr); ok {
			if b := f.refsOf(s, ia.X); len(b.views) > 0 {
				f.look(s, binding{views: b.views}, v.Pos(), "read")
				if kinds.IsBytes(v.Type()) {
					s.Vals[flow.Of(v)] = binding{views: b.views}
				} else if carries(v.Type()) {
					s.Vals[flow.Of(v)] = binding{views: inside(b.views)}
				}
			}
		}
		return
	}
	switch k := f.kinds.Of(v.Type()); {
	case k != kinds.Untracked:
		b := f.content(s, p, v.Type())
		if k == kinds.Container {
			f.notMoved(s, b, v.Pos())
			for _, r := range b.refs {
				if l := s.lives[r]; !b.part && (l.st == held || l.st == foreign || l.st == lent) {
					l.moved = v.Pos()
					s.lives[r] = l
				}
			}
		}
		if !b.empty() {
			s.Vals[flow.Of(v)] = b
		}
	default:
		if b, ok := s.Mem[p]; ok && (p.Local() && !s.escaped[p.Root] || !f.kinds.Elements(v.Type())) {
			s.Vals[flow.Of(v)] = b
		} else if !ok {
			f.loadInside(s, v, p)
		}
	}
}

// store writes a variable.
func (f *function) store(s *state, st *ssa.Store) {
	b := f.reaching(s, st.Val)
	if s.owns(b) && f.onlyStored(st) {
		f.hoard(st.Addr, st.Pos())
	}
	if len(b.refs) > 0 && intoElement(st.Addr) && f.loopsOver() {
		f.look(s, binding{refs: b.refs}, st.Pos(), "stored")
		for _, r := range b.refs {
			if s.lives[r].st == held && r.kind != kinds.Bag {
				s.forget(r)
			}
		}
	}
	if ia, isIndex := st.Addr.(*ssa.IndexAddr); isIndex {
		if f.storeElement(s, st, ia, b) {
			return
		}
	}
	p, ok := f.placeOf(st.Addr)
	if !ok {
		f.escape(s, b, custody{by: memory, pos: st.Pos(), in: "stored"})
		return
	}
	f.storeFact(s, p, st.Val)
	f.storeError(s, p, b)
	if f.own(s, st.Val, b) {
		f.put(st.Addr, st.Pos())
	}
	val := st.Val.Type()
	if _, field := st.Addr.(*ssa.FieldAddr); field && f.kinds.Elements(val) {
		f.look(s, binding{refs: b.refs}, st.Pos(), "stored")
		f.giveAway(s, binding{refs: b.refs}) // a method of the struct may free them
	}
	if f.kinds.Pointee(val) == kinds.Container {
		for _, r := range b.refs {
			if r.taken != "" {
				s.forget(r) // it has another owner from here on
			}
		}
	}
	k := f.kinds.Of(val)
	if k == kinds.Untracked && f.kinds.Pointee(val) == kinds.Untracked && len(b.views) == 0 && len(b.refs) == 0 {
		f.dropViewsIn(s, p)
		if up, c, ok := f.around(s, p); ok && len(c.views) > 0 {
			s.Mem[up] = binding{refs: c.refs, part: c.part} // it is unknown which of its parts had them
		}
		f.unkeep(s, p)
		return
	}
	if to := f.kinds.Pointee(val); to == kinds.Composite || to == kinds.Handle {
		f.escapePointer(s, st.Val) // the memory has two names now
	}
	f.overwrite(s, p, st, b)
	if f.blank[st] {
		for _, r := range s.Mem[p].refs {
			s.lives[r] = life{st: void, by: byLength}
		}
		return
	}
	s.Remove(func(q places.Place) bool { return q.Within(p) })
	if up, c, ok := f.around(s, p); ok && k != kinds.Untracked {
		if leaf, only := f.kinds.OnlyLeaf(up.Type()); only && up.Join(leaf) == p {
			delete(s.Mem, up)
		} else if len(c.refs) > 0 {
			for _, r := range c.refs {
				s.forget(r)
			}
		}
	}
	delete(s.stored, p)
	delete(s.lost, p)
	if !p.Local() || s.escaped[p.Root] {
		if k == kinds.Handle && len(b.refs) == 1 && !b.part && s.lives[b.refs[0]].st == held && s.lives[b.refs[0]].key == nil {
			s.stored[p] = true
		}
		f.unkeep(s, p)
		f.keepIn(s, b, p, st.Pos(), "stored in "+or(f.nameOf(p), "memory that others reach"))
		f.giveAway(s, binding{refs: b.refs, part: b.part})
		if k != kinds.Untracked && len(b.refs) == 0 {
			return
		}
	}
	if len(b.refs) == 0 && len(b.views) == 0 {
		return
	}
	if k == kinds.Container {
		// The content has moved here; the variable from which it was copied does not own it any more.
		for _, r := range b.refs {
			if l := s.lives[r]; l.moved.IsValid() {
				f.moveContent(s, r, p)
				return
			}
		}
	}
	if k == kinds.Composite && f.copyParts(s, st.Val, p, b) {
		return
	}
	s.Mem[p] = b
}

// copyParts binds the parts of a struct that is copied from one variable to another to what the parts of the first
// are bound to, and returns false if these are not known one by one.
func (f *function) copyParts(s *state, val ssa.Value, to places.Place, b binding) bool {
	load, ok := val.(*ssa.UnOp)
	if !ok || load.Op != token.MUL || b.part || len(b.views) > 0 || !to.Local() || s.escaped[to.Root] {
		return false
	}
	from, ok := f.placeOf(load.X)
	whole, known := s.Mem[from]
	if ok && known && f.foreignWhole(s, from, whole) && slices.Equal(whole.refs, b.refs) {
		// Another owner's: the copy has the same reference.
		leaf, only := f.kinds.OnlyLeaf(load.Type())
		if !only {
			return false
		}
		at := from.Join(leaf)
		if typ := at.Type(); f.kinds.Of(typ) == kinds.Handle {
			s.Mem[to.Join(leaf)] = f.content(s, at, typ)
			return true
		}
		return false
	}
	if !ok || known || !from.Local() || s.escaped[from.Root] {
		return false
	}
	parts := map[places.Place]binding{}
	found := 0
	for p, c := range s.Mem {
		if p.Within(from) {
			parts[to.Join(p.Path.After(from.Path))] = c
			found += len(c.refs)
		}
	}
	if found != len(b.refs) {
		return false // changed since it was loaded
	}
	maps.Copy(s.Mem, parts)
	return true
}

// owns reports whether a binding has a reference that this function owns.
func (s *state) owns(b binding) bool {
	return !b.part && slices.ContainsFunc(b.refs, func(r *ref) bool { return s.lives[r].st == held })
}

// own reports whether a value is a reference that this function owns, or a container that it made.
func (f *function) own(s *state, v ssa.Value, b binding) bool {
	if call, ok := v.(*ssa.Call); ok && f.kinds.Pointee(v.Type()) == kinds.Container {
		src := f.contractOf(&call.Call).Result(0).Source
		return src == contracts.Holder || src == contracts.Holding
	}
	if f.kinds.Of(v.Type()) == kinds.Untracked && !f.kinds.Elements(v.Type()) || b.part {
		return false
	}
	for _, r := range b.refs {
		if s.lives[r].st == held {
			return true
		}
	}
	return false
}

// storeElement writes an element of bytes, or of a slice that this function made.
func (f *function) storeElement(s *state, st *ssa.Store, ia *ssa.IndexAddr, b binding) bool {
	over := f.refsOf(s, ia.X)
	if len(over.views) > 0 {
		if kinds.IsBytes(ia.X.Type()) {
			f.write(s, over, st.Pos())
			return true
		}
		if len(b.views) == 0 {
			f.dropViews(s, ofViews(over.views)) // possibly replaced by a copy
		}
	}
	if len(over.refs) == 1 && over.refs[0].kind == kinds.Bag && len(b.refs) > 0 && !b.part {
		f.look(s, binding{refs: b.refs}, st.Pos(), "stored")
		if l := s.lives[over.refs[0]]; l.st == void || l.st == held {
			for _, r := range b.refs {
				if s.lives[r].st == held {
					s.lives[over.refs[0]] = life{st: held, pos: st.Pos()}
				}
				s.lives[r] = life{}
			}
			return true
		}
	}
	f.forgetElements(s, ia)
	return false
}

// forgetElements drops what is known of elements of slices and, with at not nil, of the array into which at
// leads, since another index, or another slice, may mean the same element.
func (f *function) forgetElements(s *state, at *ssa.IndexAddr) {
	var here places.Place
	if at != nil {
		here, _ = f.placeOf(at)
	}
	for p := range s.Mem {
		if p == here || !p.InElement() {
			continue
		}
		if !p.Local() || p.Root == here.Root && !(p.IsConstantElement() && here.IsConstantElement()) {
			delete(s.Mem, p)
		}
	}
}

// moveContent moves a container's content to another variable, and marks the former one.
func (f *function) moveContent(s *state, r *ref, to places.Place) {
	l := s.lives[r]
	here := f.refAt(refKey{v: to.Root, from: fromCopy, path: to.Path}, r.kind, r.pos)
	here.field = f.nameOf(to)
	s.lives[here] = life{st: l.st, pos: l.pos, by: l.by, key: l.key, alt: l.alt}
	s.Mem[to] = binding{refs: []*ref{here}}
	s.lives[r] = life{st: given, pos: l.moved, by: copiedBy, moved: l.moved}
}

// copiedBy marks a container that was copied by value.
const copiedBy = "\x00copied"

// storeFact copies what is known of a bool or an error to the variable in which it is stored.
func (f *function) storeFact(s *state, p places.Place, v ssa.Value) {
	var from *conditions.Condition
	known, value := false, false
	test := code.IsBool(v.Type())
	if test || code.IsError(v.Type()) {
		if value, known = f.valueOf(s, v); !known {
			if c, positive := f.fact(v); positive {
				from = s.root(c)
			}
		}
	}
	f.forgetLoads(s, p)
	c := f.table.Nil(f.table.Load(p))
	if test {
		c = f.table.True(f.table.Load(p))
	}
	switch {
	case known:
		s.Facts[c] = value
	case from != nil && from != c:
		s.alias[c] = from
	}
}

// forgetLoads drops what is known of the values loaded from p.
func (f *function) forgetLoads(s *state, p places.Place) {
	loaded := func(t *conditions.Term) bool { return t.Form == conditions.Load && t.Place.Within(p) }
	for c := range s.Facts {
		if c.Mentions(loaded) {
			s.unlearn(c)
		}
	}
}

// escapePointer ends the tracking of the memory to which a pointer leads: other code may change it from here
// on.
func (f *function) escapePointer(s *state, v ssa.Value) {
	p, ok := f.placeOf(v)
	if !ok {
		return
	}
	for q, b := range s.Mem {
		if q.Within(p) {
			f.giveAway(s, b)
		}
	}
	if _, ok := p.Root.(*ssa.Alloc); ok && p.Whole() {
		s.escaped[p.Root] = true
	}
}

// forgetMemory drops what is known of memory that a call may have changed.
func (f *function) forgetMemory(s *state) {
	clear(s.stored)
	for p := range s.Mem {
		if v, captured := p.Root.(*ssa.FreeVar); captured && p.Whole() && f.kinds.Pointee(v.Type()) == kinds.Handle && assignedBefore(v) {
			continue
		}
		if !p.Local() || s.escaped[p.Root] {
			if _, param := p.Root.(*ssa.Parameter); (param || f.refs[refKey{v: p.Root, from: fromHolder}] != nil) && p.Whole() {
				continue
			}
			if r := f.refs[refKey{v: p.Root, from: fromMemory, path: p.Path}]; r != nil && r.taken != "" {
				continue // it is this function's
			}
			for _, r := range s.Mem[p].refs {
				if s.lives[r].st != foreign {
					s.lost[p] = true
				} else if f.elsewhere(s, r) {
					f.strays[p.Root] = true
				}
			}
			delete(s.Mem, p)
		}
	}
}

// elsewhere reports whether the function also has r under another name, by which it frees it or gives it
// away.
func (f *function) elsewhere(s *state, r *ref) bool {
	for v, b := range s.Vals {
		if b.has(r) && f.released(v.Value) {
			return true
		}
	}
	for p, b := range s.Mem {
		if p.Local() && b.has(r) && f.released(p.Root) {
			return true
		}
	}
	return false
}

// escape handles a store after which other code may free the references.
func (f *function) escape(s *state, b binding, to custody) {
	f.look(s, binding{refs: b.refs}, to.pos, to.in)
	f.keep(s, b, to)
	f.giveAway(s, b)
}

// giveAway stops tracking refs.
func (f *function) giveAway(s *state, b binding) {
	for _, r := range b.refs {
		if l := s.lives[r]; l.st != freed && l.st != given {
			s.forget(r)
		}
	}
}
